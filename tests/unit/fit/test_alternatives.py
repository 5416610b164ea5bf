"""Tests of alternatives: which one is the least change, and scripts that do not allow one."""

from dataclasses import replace
from typing import Any

import pytest

from pgmo.cards import Card
from pgmo.errors import RehearsalError
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if import alternatives
from pgmo.fit.what_if.alternatives import Alternative, Rehearsed, least_change
from tests.unit.fit.loops import CONTEXT, MIB, evidence, job

HALVED = Rehearsed("half of it", "checkpoint", "half of it is kept", 2)
REFUSED = Rehearsed("not this one", "recompute:min", "", 2)


@pytest.fixture(autouse=True)
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace rehearsals: checkpointing halves the batch's bytes, and recomputation fails."""

    def collect(_: Job, card: Card, *, value: int, change: str | None = None) -> Evidence:
        if change == "recompute:min":
            raise RehearsalError("train.py ended with exit code 1: it cannot be captured")
        return replace(evidence(value // 2, usable=card.usable, change=change), value=value)

    monkeypatch.setattr(alternatives, "collect", collect)


def _rows(usable: int, batch: int = 16) -> list[Alternative]:
    card = Card("test", usable, usable, (8, 0), 100)
    law = Law([evidence(2), evidence(4)])
    found, made = alternatives.alternatives(job(), card, law, batch, rehearse=(HALVED, REFUSED))
    assert [one.change for one in made] == ["checkpoint"]
    return found


def _named(rows: list[Alternative], name: str) -> Alternative:
    return next(one for one in rows if one.name == name)


def test_the_script_as_it_is_comes_first_and_is_the_least_change() -> None:
    rows = _rows(4 << 30)
    assert rows[0].rank == 0
    assert rows[0].fits
    assert least_change(rows) is rows[0]


def test_a_rehearsed_change_has_the_bytes_of_its_rehearsal() -> None:
    rows = _rows(4 << 30)
    law = Law([evidence(8)])
    assert _named(rows, "half of it").total == law.with_pgmo(law.at(8).peak) + CONTEXT
    assert _named(rows, "half of it").source == "rehearsed"


def test_a_change_that_the_script_does_not_allow_says_why() -> None:
    row = _named(_rows(4 << 30), "not this one")
    assert row.total is None
    assert not row.fits
    assert "cannot be captured" in row.how


def test_the_nearest_change_that_fits_is_named() -> None:
    whole = Law([evidence(16)])
    need = whole.with_pgmo(whole.at(16).peak) + CONTEXT
    least = least_change(_rows(need - MIB))
    assert least is not None
    assert least.rank == min(one.rank for one in _rows(need - MIB) if one.fits)


def test_where_nothing_fits_alone_two_changes_may() -> None:
    half = Law([evidence(8)])
    together = half.with_pgmo(half.at(8).peak) + CONTEXT - 100 * MIB  # the states are 128 MiB
    rows = _rows(together, batch=16)
    alone = [one for one in rows if one.fits and ", and " not in one.name]
    combined = [one for one in rows if one.fits and ", and " in one.name]
    # Smaller batches and adapters may fit alone.
    assert alone or combined
    assert all(one.source == "computed" for one in combined)


def test_half_and_twice_the_batch_are_by_the_laws() -> None:
    rows = _rows(4 << 30)
    assert _named(rows, "8 instead of 16").source == "predicted"
    assert _named(rows, "32 instead of 16").total > _named(rows, "8 instead of 16").total  # type: ignore[operator]


def test_nothing_that_fits_is_nothing() -> None:
    rows: list[Any] = [Alternative("a", 1, False, "computed", "")]
    assert least_change(rows) is None
