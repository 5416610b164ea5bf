"""The largest batch for each length, by laws of both, is the one of trial and error."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgmo.cards import Card
from pgmo.cli.main import main
from pgmo.errors import OptionError
from pgmo.fit import two_values
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.next_plan.attempts import value_of
from pgmo.fit.two_values import batch_table, options_of
from pgmo.rehearsal import library
from pgmo.rehearsal.library import TorchBuild
from tests.unit.fit import loops
from tests.unit.fit.loops import CARD, evidence

VARY = "--batch-size {b} --length {l}"


def at(batch: int, length: int, **options: Any) -> Evidence:
    """The loop with activations that grow with the square of the length."""
    before = loops.PER_SAMPLE
    loops.PER_SAMPLE = 512 * (length * 8 + length**2)
    try:
        return evidence(batch, **options)
    finally:
        loops.PER_SAMPLE = before


def by_trial(length: int, usable: int) -> int:
    batch = 0
    while at(batch + 1, length, way="pgmo", usable=usable).rehearsal.fits:
        batch += 1
    return batch


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """What was rehearsed: batch, length, and whether it fitted."""
    seen: list[tuple[int, int, bool]] = []

    def collect(
        job: Job, card: Card, *, value: int, way: Any = "default", work: bool = True
    ) -> Evidence:
        length = value_of(job.command, "--length {}")
        assert length is not None
        made = at(value, length, way=way, usable=card.usable)
        seen.append((value, length, made.rehearsal.fits))
        return made

    monkeypatch.setattr(two_values, "collect", collect)
    return seen


def test_the_table_is_that_of_trial_and_error(rehearsed: list[tuple[int, int, bool]]) -> None:
    card = replace(CARD, memory=3 << 30, usable=3 << 30)
    found = batch_table(Job(("train.py",)), VARY, card)
    assert found.options == ("--batch-size", "--length")
    assert [one.length for one in found.rows][:4] == [64, 128, 256, 512]
    for row in found.rows:
        # The excess of pages is a guess for lengths that were not rehearsed on the card.
        assert row.batch <= by_trial(row.length, card.usable) <= 1.02 * row.batch + 1, row
    assert sum(one.proved for one in found.rows) == 3
    assert found.rehearsals == len(rehearsed) == 6 + 3
    assert all(fitted for *_, fitted in rehearsed)


def test_a_row_that_runs_out_of_memory_is_made_smaller(
    rehearsed: list[tuple[int, int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = replace(CARD, memory=2 << 30, usable=2 << 30)
    plain = two_values.largest_value
    monkeypatch.setattr(two_values, "largest_value", lambda *given: plain(*given) * 102 // 100)
    found = batch_table(Job(("train.py",)), VARY, card)
    assert found.rows[0].proved
    assert 0 < found.rows[0].batch <= by_trial(64, card.usable)
    assert not all(fitted for *_, fitted in rehearsed)


def test_the_options_and_their_places() -> None:
    assert options_of("-b={b} -l {l}") == ("-b={}", "-l {}")
    with pytest.raises(OptionError, match="two options"):
        options_of("-b {b} {l} x")


def test_the_command_prints_the_table(
    rehearsed: list[tuple[int, int, bool]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build = TorchBuild("python", Path("torch"), "2.11.0+cu130")
    monkeypatch.setattr(library, "find_torch_build", lambda _: build)
    script = tmp_path / "train.py"
    script.write_text("")
    words = ["fit", "--card", "3GiB", "--vary", VARY]
    assert main([*words, str(script)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("The largest --batch-size for each --length on 3.00 GiB with pgmo:")
    assert "a rehearsal on the card" in printed
    assert main([*words, "--json", str(script)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"][0]["length"] == 64
    assert main([*words, "--value", "4", str(script)]) == 2
    assert "--value needs one option that varies" in capsys.readouterr().err
