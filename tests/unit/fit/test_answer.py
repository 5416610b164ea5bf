"""Tests of the answer's sentence and of its plain values."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pgmo.cards import find
from pgmo.errors import OptionError
from pgmo.fit.evidence import Evidence
from tests.unit.fit.answers import answer, rehearse_loop
from tests.unit.fit.loops import trial_and_error


def test_a_job_that_fits_says_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, value=4)
    assert found.fits["pgmo"]
    assert found.spare > 0
    assert found.sentence.startswith("train.py fits on small <L4>: it takes ")
    assert found.proved == ("pgmo",)
    assert found.rehearsals == 1


def test_memory_of_the_host_is_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, value=4)
    assert "shares its memory with the host" not in found.sentence
    shared = replace(found, card=find("DGX Spark")).sentence
    assert shared.startswith("train.py fits on GB10: it takes ")
    assert "GB10 shares its memory with the host" in shared


def test_pinned_memory_of_the_host_is_named_if_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, value=4)
    assert "pins" not in replace(found, pinned=200 << 20).sentence
    pinned = replace(found, pinned=3 << 30)
    assert pinned.sentence.endswith(". The job pins 3.00 GiB of host memory.")
    assert pinned.as_json()["pinned"] == 3 << 30


def test_a_job_that_does_not_fit_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, usable=500 << 20, value=16, what_if=True)
    assert not found.fits["pgmo"]
    assert found.spare < 0
    assert "does not fit" in found.sentence
    least = found.least_change
    assert least is not None
    assert f"with {least.name} it fits" in found.sentence


def test_a_rehearsal_decides_against_a_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, value=4)
    failed = replace(found, fits=dict.fromkeys(found.fits, False))
    assert "does not fit on small <L4>: memory ran out in the rehearsal" in failed.sentence
    full = replace(found, card=replace(found.card, usable=found.need.total("pgmo") - 1))
    assert "on a larger card, but on this card it stays within" in full.sentence


def test_the_largest_batch_and_its_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, effective=96)
    assert found.batch == trial_and_error(1 << 30, "pgmo")
    assert found.accumulation is not None
    micro, steps = found.accumulation
    assert micro * steps == 96
    assert micro <= found.batch
    assert f"{steps} micro-batches of {micro}" in found.sentence


def test_a_job_that_fits_at_no_batch_has_no_micro_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = answer(monkeypatch, usable=300 << 20, effective=96)
    assert found.batch == 0
    assert found.accumulation is None
    assert found.as_json()["accumulation"] is None
    assert "micro-batches" not in found.sentence


def test_other_cards_have_other_batches_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, cards=(find("L4"), find("A100-80GB"), find("16GiB")), samples=1e6)
    small, large, size = found.cards
    assert small.largest < large.largest
    assert large.forecast.total < small.forecast.total
    assert size.forecast is None  # a card of a given size has no known rates
    assert {row.ranks for row in found.cards} == {1}


def test_a_card_that_is_too_small_needs_company(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = answer(monkeypatch, value=2, cards=(find("300 MiB"),)).cards
    assert row.fits == {"default": False, "pgmo": False}
    assert row.ranks is None  # its context alone is larger
    (row,) = answer(monkeypatch, value=2, cards=(find("800 MiB"),)).cards
    assert row.ranks in (2, 4, 8)


def test_without_a_search_there_is_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="leave batch= out"):
        _ = answer(monkeypatch, value=4).batch


def test_plain_values_have_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, what_if=True, cards=(), effective=8)
    fields = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert fields["answer"] == found.sentence
    assert fields["fits"]["pgmo"] is True
    assert fields["need"]["reserved"] == found.need.reserved
    assert [one["value"] for one in fields["largest"]] == [one.value for one in found.largest]
    assert len(fields["cards"]) == len(found.cards) > 30
    assert {one["source"] for one in fields["alternatives"]} <= {
        "rehearsed",
        "computed",
        "predicted",
    }


def test_code_that_did_not_run_is_known_although_a_rehearsal_ran_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def collect(*given: Any, **options: Any) -> Evidence:
        made = rehearse_loop(*given, **options)
        if made.known:
            made.known["missed"] = ["evaluate() at train.py:4"]
        return made

    found = answer(monkeypatch, 500 << 20, collect, value=16)
    assert found.rehearsals == 2
    assert found.missed == ("evaluate() at train.py:4",)


def test_code_that_did_not_run_is_named_after_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch)
    assert "did not run" not in found.sentence
    missed = ("evaluate() at train.py:4", "b", "c", "d", "e")
    assert replace(found, missed=missed).sentence == (
        f"{found.sentence} Not covered: evaluate() at train.py:4, b, c and 2 more, which "
        "did not run in the rehearsed iterations."
    )
    small = answer(monkeypatch, usable=1 << 20, value=4)
    assert replace(small, missed=missed).sentence == small.sentence


def test_holders_are_those_of_the_last_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_profile(*given: Any, **options: Any) -> Evidence:
        found = rehearse_loop(*given, **options)
        assert found.load is not None
        return replace(found, steady=found.load.profile)

    assert answer(monkeypatch, value=4).holders == {}
    found = answer(monkeypatch, rehearse=with_profile, value=4).holders
    assert sorted(found) == ["module", "op", "phase"]
    peak = with_profile(None, find("L4")).load
    assert peak is not None
    assert sum(one.size for one in found["phase"]) == peak.profile.max_load()
