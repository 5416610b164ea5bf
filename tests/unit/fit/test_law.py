"""Tests of laws, by which two small batches yield the requests of a large one, to the byte."""

import pytest

from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.laws.law import Law
from pgmo.rehearsal.environment import WAYS
from tests.unit.fit.loops import CONTEXT, evidence


def test_a_batch_that_was_never_run_needs_what_it_would() -> None:
    law = Law([evidence(2), evidence(4)])
    exact = Law([evidence(17)])
    predicted, true = law.need(17), exact.need(17)
    assert predicted.categories == true.categories
    assert predicted.allocated_peak == true.allocated_peak == sum(predicted.categories.values())
    assert predicted.reserved["default"] == true.reserved["default"]
    assert predicted.reserved["expandable"] == true.reserved["expandable"]
    assert predicted.context == CONTEXT


@pytest.mark.parametrize("way", ["default", "expandable"])
def test_it_fits_where_it_would_run(way: str) -> None:
    law = Law([evidence(2), evidence(4)])
    for usable in (600 << 20, 900 << 20, 1500 << 20):
        for batch in (8, 16, 24, 32):
            ran = evidence(batch, way=way, usable=usable).rehearsal.fits
            assert law.fits(batch, usable, way) == ran, (batch, usable)


def test_pgmo_takes_what_a_rehearsal_has_shown() -> None:
    shown = Law([evidence(2), evidence(4, way="pgmo")])
    need = shown.need(4)
    assert need.total("pgmo") == evidence(4, way="pgmo").rehearsal.card_peak


def test_one_rehearsal_knows_its_own_batch_only() -> None:
    law = Law([evidence(2)])
    assert {law.fits(2, 1 << 40, way) for way in WAYS} == {True}
    with pytest.raises(OptionError, match="two values"):
        law.at(3)


def test_without_a_whole_history_nothing_is_known() -> None:
    with pytest.raises(RehearsalError, match="three optimizer steps"):
        Law([evidence(64, usable=200 << 20)])
