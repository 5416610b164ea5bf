"""Tests of alternatives: which one is the least change, and scripts that do not allow one."""

from dataclasses import replace

import pytest

from pgmo.cards import Card
from pgmo.errors import RehearsalError
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if import alternatives
from pgmo.fit.what_if.alternatives import Alternative, Rehearsed, least_change
from pgmo.fit.what_if.on_cards import on_cards
from pgmo.rehearsal.environment import context_bytes
from tests.unit.fit.answers import pretend
from tests.unit.fit.loops import CONTEXT, LAYERS, MIB, WEIGHT, card, evidence, job

HALVED = Rehearsed("half of it", "checkpoint", "half of it is kept", 2)
REFUSED = Rehearsed("not this one", "recompute:min", "", 2)


@pytest.fixture(autouse=True)
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace rehearsals: checkpointing halves the batch's bytes, and recomputation fails."""

    def collect(_: Job, card: Card, *, value: int, change: str) -> Evidence:
        if change == "recompute:min":
            raise RehearsalError("train.py ended with exit code 1: it cannot be captured")
        return replace(evidence(value // 2, usable=card.usable), value=value)

    pretend(monkeypatch, collect)
    monkeypatch.setattr(alternatives, "REHEARSED", (HALVED, REFUSED))


def _rows(mib: int) -> dict[str, Alternative]:
    law = Law([evidence(2), evidence(4)])
    found, made = alternatives.alternatives(job(), card(mib), law, 16)
    assert [one.change for one in made] == ["checkpoint"]
    return {one.name: one for one in found}


def _need(batch: int) -> int:
    law = Law([evidence(batch)])
    return law.with_pgmo(law.at(batch).peak) + CONTEXT


def test_each_row_has_its_bytes_and_their_source() -> None:
    rows = _rows(4096)
    plain = next(iter(rows.values()))
    assert (plain.rank, plain.fits, plain.total) == (0, True, _need(16))
    assert least_change(rows.values()) is plain
    half, refused = rows["half of it"], rows["not this one"]
    assert (half.total, half.source) == (_need(8), "rehearsed")
    assert (refused.total, refused.fits) == (None, False)
    assert "cannot be captured" in refused.how
    smaller, larger = rows["8 instead of 16"], rows["32 instead of 16"]
    assert (smaller.total, smaller.source) == (_need(8), "predicted")
    assert larger.total == _need(32)


def test_a_later_evaluation_is_part_of_each_total() -> None:
    # Evaluation takes 2 GiB, most of them for activations.
    later = evidence(16)
    later.known["later_peak"] = 2048 * MIB
    law = Law([later])
    assert law.later_at(16) == 2048 * MIB
    rows = {one.name: one for one in alternatives.alternatives(job(), card(4096), law, 16)[0]}
    plain = rows["unchanged, with pgmo"]
    assert plain.total == law.with_pgmo(2048 * MIB) + CONTEXT
    assert plain.total > _need(16)
    # Adam's two states of each layer are on the host during evaluation, too.
    offloaded = rows["optimizer state offloaded to the host"]
    assert offloaded.total == plain.total - 2 * LAYERS * WEIGHT
    small = card(2048)
    (row,) = on_cards(law, 16, cards=[small])
    assert row.total == plain.total - CONTEXT + context_bytes(small)
    assert row.fits == {"default": False, "pgmo": False}


def test_the_nearest_change_that_fits_is_named() -> None:
    rows = _rows(_need(16) // MIB - 1)
    least = least_change(rows.values())
    assert least is not None
    assert least.rank == min(one.rank for one in rows.values() if one.fits) > 0


def test_two_changes_may_fit_if_no_single_one_does() -> None:
    rows = _rows(300)
    assert not any(one.fits for one in rows.values() if ", and " not in one.name)
    (both,) = [one for one in rows.values() if ", and " in one.name]
    assert both.fits
    assert both.source == "computed"
    assert least_change(rows.values()) is both
    assert least_change(_rows(120).values()) is None
