"""Tests that the largest batch of each length is the one of trial and error."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pgmo
from pgmo.cards import Card
from pgmo.cli.main import main
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit import two_values
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.next_plan.attempts import value_of
from pgmo.fit.two_values import batch_table, options_of
from pgmo.rehearsal import Rehearsal
from tests.unit.fit import loops
from tests.unit.fit.answers import pretend
from tests.unit.fit.loops import card, evidence

VARY = "--batch-size {b} --length {l}"


def at(batch: int, length: int, usable: int, way: Any) -> Evidence:
    """Return the evidence of a loop whose activations grow with the square of the length."""
    before = loops.PER_SAMPLE
    loops.PER_SAMPLE = 512 * (length * 8 + length**2)
    try:
        return evidence(batch, usable=usable, way=way)
    finally:
        loops.PER_SAMPLE = before


def by_trial(length: int, usable: int) -> int:
    batch = 0
    while at(batch + 1, length, usable, "pgmo").rehearsal.fits:
        batch += 1
    return batch


def replaced(
    monkeypatch: pytest.MonkeyPatch, rehearse: Callable[..., Evidence]
) -> list[tuple[int, int, bool]]:
    """Replace rehearsals, and return a list of those made: (batch, length, whether it fitted)."""
    seen: list[tuple[int, int, bool]] = []

    def collect(job: Job, card: Card, *, value: int, **options: Any) -> Evidence:
        length = value_of(job.command, "--length {}")
        assert length is not None
        made = rehearse(value, length, card.usable, options.get("way", "default"))
        seen.append((value, length, made.rehearsal.fits))
        return made

    pretend(monkeypatch, collect)
    return seen


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """Replace rehearsals by those of the loop."""
    return replaced(monkeypatch, at)


def test_the_table_is_that_of_trial_and_error(rehearsed: list[tuple[int, int, bool]]) -> None:
    where = card(3072)
    found = batch_table(Job(("train.py",)), VARY, where)
    assert found.options == ("--batch-size", "--length")
    assert [one.length for one in found.rows][:4] == [64, 128, 256, 512]
    for row in found.rows:
        # The bytes lost to pages are estimated for lengths that were not rehearsed on the card.
        assert row.batch <= by_trial(row.length, where.usable) <= 1.02 * row.batch + 1, row
    assert sum(one.proved for one in found.rows) == 3
    assert found.rehearsals == len(rehearsed) == 6 + 3
    assert all(fitted for *_, fitted in rehearsed)


@pytest.mark.parametrize(("percent", "proved"), [(102, True), (110, False)])
def test_a_row_has_no_batch_that_ran_out_of_memory(
    rehearsed: list[tuple[int, int, bool]],
    monkeypatch: pytest.MonkeyPatch,
    percent: int,
    proved: bool,
) -> None:
    where = card(2048)
    plain = two_values.largest_value
    monkeypatch.setattr(two_values, "largest_value", lambda *given: plain(*given) * percent // 100)
    found = batch_table(Job(("train.py",)), VARY, where)
    failed = {(length, batch) for batch, length, fitted in rehearsed if not fitted}
    assert failed
    assert failed.isdisjoint((row.length, row.batch) for row in found.rows)
    first = found.rows[0]
    assert first.proved == proved
    assert not proved or 0 < first.batch <= by_trial(64, where.usable)


PAGE, WEIGHTS, CACHE = 2 << 20, 900 << 20, 20 << 10
"""Bytes of a page, of the weights with the context, and of the cache for one token."""


def serving(monkeypatch: pytest.MonkeyPatch, transient: int = 0) -> list[tuple[int, int, bool]]:
    """Replace rehearsals by those of a server, and return a list of those made."""

    def rehearse(batch: int, length: int, usable: int, _: Any) -> Evidence:
        size = serving_bytes(batch, length, transient)
        fits = size <= usable
        ran_out = None if fits else "CUDA out of memory"
        answer = Rehearsal(0, fits, min(size, usable), 0, 0, out_of_memory=ran_out)
        return Evidence(answer, batch, "pgmo", None, None, {})

    return replaced(monkeypatch, rehearse)


def serving_bytes(batch: int, length: int, transient: int) -> int:
    square = transient * length**2 * min(batch, 40)  # the scheduler admits 40 prompts at once
    return WEIGHTS + -(-(batch * length * CACHE + square) // PAGE) * PAGE


@pytest.mark.parametrize("transient", [0, 64])
def test_the_table_of_a_server_is_exact_to_a_page_where_it_was_rehearsed(
    monkeypatch: pytest.MonkeyPatch, transient: int
) -> None:
    seen = serving(monkeypatch, transient)
    where = card(6144)
    found = batch_table(Job(("serve.py",)), "--requests {b} --length {l}", where)
    assert [one.length for one in found.rows][:3] == [64, 128, 256]
    for row in (one for one in found.rows if one.proved):
        assert serving_bytes(row.batch, row.length, transient) <= where.usable
        more = row.batch + 1 + PAGE // (row.length * CACHE)
        assert serving_bytes(more, row.length, transient) > where.usable
    assert sum(one.proved for one in found.rows) == 3
    assert len(seen) == found.rehearsals <= 1 + 6 + 3 * 5


def test_a_row_of_a_server_has_no_number_that_ran_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serving(monkeypatch)
    where = card(1228)
    plain, failed = two_values.collect, set()

    def collect(job: Job, on: Card, *, value: int, **options: Any) -> Evidence:
        found = plain(job, on, value=value, **options)
        if on.usable != where.usable:
            return found
        failed.add((value_of(job.command, "--length {}"), value))
        return replace(found, rehearsal=replace(found.rehearsal, fits=False))

    monkeypatch.setattr(two_values, "collect", collect)
    found = batch_table(Job(("serve.py",)), "--requests {b} --length {l}", where)
    assert failed
    assert not any(row.proved for row in found.rows)
    assert failed.isdisjoint((row.length, row.batch) for row in found.rows)


def test_a_server_whose_memory_no_option_changes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serving(monkeypatch)
    monkeypatch.setitem(globals(), "CACHE", 0)
    with pytest.raises(RehearsalError, match="does not rise from 16 to 64"):
        batch_table(Job(("serve.py",)), "--requests {b} --length {l}", card(1024))


def test_the_options_and_their_places() -> None:
    assert options_of("-b={b} -l {l}") == ("-b={}", "-l {}")
    with pytest.raises(OptionError, match="two options"):
        options_of("-b {b} {l} x")


def test_the_command_prints_the_table(
    rehearsed: list[tuple[int, int, bool]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    words = ["fit", "--card", "3GiB", "--vary", VARY]
    assert main([*words, str(script)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("The largest --batch-size for each --length on 3.00 GiB with pgmo:")
    assert "a rehearsal" in printed
    page = tmp_path / "table.html"
    assert main([*words, "--json", "--report", str(page), str(script)]) == 0
    text = page.read_text()
    assert "<h1>Which --batch-size of train.py fits on 3.00 GiB?</h1>" in text
    assert text.count("a rehearsal") == 3
    fields = json.loads(capsys.readouterr().out)
    assert fields["rows"][0]["length"] == 64
    assert main([*words, "--value", "4", str(script)]) == 2
    assert "--value needs one option that varies" in capsys.readouterr().err


def test_the_function_gives_the_table(rehearsed: list[tuple[int, int, bool]]) -> None:
    found = pgmo.fit.table("train.py", vary=VARY, card="3GiB")
    assert found.rows[0].batch == max(batch for batch, length, fitted in rehearsed if length == 64)
    with pytest.raises(OptionError, match="must name two options"):
        pgmo.fit.table("train.py", vary="--batch-size {}")
