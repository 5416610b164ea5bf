"""Tests that the largest batch is the one of trial and error, without out-of-memory errors."""

from dataclasses import replace
from typing import Any

import pytest

from pgmo.cards import Card
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.largest import MOST, accumulate, search
from tests.unit.fit import loops
from tests.unit.fit.answers import pretend
from tests.unit.fit.loops import MIB, card, evidence, job, trial_and_error


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[Evidence]:
    """Replace rehearsals, and return a list of the evidence of those made."""
    return pretend(monkeypatch)


@pytest.mark.parametrize("mib", [700, 1024, 2000, 5000])
def test_the_largest_batch_is_that_of_trial_and_error(rehearsed: list[Evidence], mib: int) -> None:
    found = search(job(), card(mib))
    for one in found.found:
        assert one.value == trial_and_error(mib << 20, one.way)
    assert found.found[0].proved
    assert len(found.evidence) == len(rehearsed) <= MOST
    assert all(one.rehearsal.fits for one in rehearsed)


def test_a_batch_that_the_data_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(_: Job, card: Card, *, value: int, **__: Any) -> Evidence:
        return replace(evidence(min(value, 12), usable=card.usable), value=value)

    pretend(monkeypatch, collect)
    with pytest.raises(RehearsalError, match="too few samples"):
        search(job(), card(5000))


def test_loose_laws_lead_to_one_more_rehearsal(
    rehearsed: list[Evidence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "scratch", lambda batch: 3 * MIB * (1 + batch // 3))
    found = search(job(), card(1500))
    ours = found.found[0]
    assert ours.proved
    assert len(found.evidence) <= MOST
    assert trial_and_error(1500 << 20, "pgmo") >= ours.value
    assert [one.way for one in rehearsed].count("pgmo") == 2


def test_the_largest_batch_is_0_if_none_fits(rehearsed: list[Evidence]) -> None:
    found = search(job(), card(300))
    assert [one.value for one in found.found] == [0, 0]
    assert found.found[0].need is None


def test_unproved_answers_say_so(rehearsed: list[Evidence]) -> None:
    found = search(job(), card(1024), prove=False)
    assert not any(one.proved for one in found.found)
    assert len(rehearsed) == 2


def test_a_script_that_is_another_program_each_time_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def collect(_: Job, card: Card, *, value: int, **__: Any) -> Evidence:
        monkeypatch.setattr(loops, "LAYERS", 4 * value)
        return evidence(value, usable=card.usable)

    pretend(monkeypatch, collect)
    with pytest.raises(RehearsalError, match="requests at different values do not correspond"):
        search(job(), card(4000))


def test_something_has_to_vary() -> None:
    with pytest.raises(OptionError, match="--vary"):
        search(Job(("train.py",)), card(1024))
    with pytest.raises(OptionError, match="two different values"):
        search(job(), card(1024), values=(2, 2))


@pytest.mark.parametrize(
    ("effective", "most", "split"),
    [(256, 18, (16, 16)), (7, 3, (1, 7)), (12, 12, (12, 1)), (5, 100, (5, 1))],
)
def test_micro_batches_make_the_batch(effective: int, most: int, split: tuple[int, int]) -> None:
    assert accumulate(effective, most) == split


def test_nothing_cannot_be_accumulated() -> None:
    with pytest.raises(OptionError, match="at most 0"):
        accumulate(8, 0)
