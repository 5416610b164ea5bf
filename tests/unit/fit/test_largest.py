"""Tests that the largest batch is the one of trial and error, without out-of-memory errors."""

from dataclasses import replace
from typing import Any

import pytest

from pgmo.cards import Card
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit import largest
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.largest import MOST, accumulate, search
from tests.unit.fit import loops
from tests.unit.fit.loops import CARD, MIB, evidence, job, trial_and_error


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, bool]]:
    """Replace rehearsals, and return a list of those made: (value, way, whether it fitted)."""
    seen: list[tuple[int, str, bool]] = []

    def collect(
        _: Job,
        card: Card,
        *,
        value: int,
        way: Any = "default",
        change: str | None = None,
        work: bool = True,
    ) -> Evidence:
        made = evidence(value, way=way, usable=card.usable, change=change)
        seen.append((value, way, made.rehearsal.fits))
        return made

    monkeypatch.setattr(largest, "collect", collect)
    return seen


def _card(mib: int) -> Card:
    return Card("test", mib << 20, mib << 20, CARD.capability, CARD.multiprocessors)


@pytest.mark.parametrize("mib", [700, 1024, 2000, 5000])
def test_the_largest_batch_is_that_of_trial_and_error(
    rehearsed: list[tuple[int, str, bool]], mib: int
) -> None:
    found = search(job(), _card(mib))
    for one in found.found:
        assert one.value == trial_and_error(mib << 20, one.way)
    assert found.found[0].proved
    assert len(found.evidence) == len(rehearsed) <= MOST
    assert all(fitted for *_, fitted in rehearsed)


def test_a_batch_that_the_data_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(_: Job, card: Card, *, value: int, **__: Any) -> Evidence:
        return replace(evidence(min(value, 12), usable=card.usable), value=value)

    monkeypatch.setattr(largest, "collect", collect)
    with pytest.raises(RehearsalError, match="too few samples"):
        search(job(), _card(5000))


def test_where_the_laws_are_loose_one_more_is_tried(
    rehearsed: list[tuple[int, str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "scratch", lambda batch: 3 * MIB * (1 + batch // 3))
    found = search(job(), _card(1500))
    ours = found.found[0]
    assert ours.proved
    assert len(found.evidence) <= MOST
    assert trial_and_error(1500 << 20, "pgmo") >= ours.value
    assert len([way for _, way, _ in rehearsed if way == "pgmo"]) == 2


def test_what_does_not_fit_at_all_is_no_batch(rehearsed: list[tuple[int, str, bool]]) -> None:
    found = search(job(), _card(300))
    assert [one.value for one in found.found] == [0, 0]
    assert found.found[0].need is None


def test_unproved_answers_say_so(rehearsed: list[tuple[int, str, bool]]) -> None:
    found = search(job(), _card(1024), prove=False)
    assert not any(one.proved for one in found.found)
    assert len(rehearsed) == 2


def test_a_script_that_is_another_program_each_time_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def collect(_: Job, card: Card, *, value: int, **__: Any) -> Evidence:
        monkeypatch.setattr(loops, "LAYERS", 4 * value)
        return evidence(value, usable=card.usable)

    monkeypatch.setattr(largest, "collect", collect)
    with pytest.raises(RehearsalError, match="different requests at each value"):
        search(job(), _card(4000))


def test_something_has_to_vary() -> None:
    with pytest.raises(OptionError, match="--vary"):
        search(Job(("train.py",)), CARD)
    with pytest.raises(OptionError, match="two different values"):
        search(job(), CARD, values=(2, 2))


@pytest.mark.parametrize(
    ("effective", "most", "split"),
    [(256, 18, (16, 16)), (7, 3, (1, 7)), (12, 12, (12, 1)), (5, 100, (5, 1))],
)
def test_micro_batches_make_the_batch(effective: int, most: int, split: tuple[int, int]) -> None:
    assert accumulate(effective, most) == split


def test_nothing_cannot_be_accumulated() -> None:
    with pytest.raises(OptionError, match="at most 0"):
        accumulate(8, 0)
