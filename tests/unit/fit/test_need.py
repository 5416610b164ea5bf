"""Tests that the parts of a need add up, and that it tells which cards suffice."""

from dataclasses import replace

import pytest

from pgmo.errors import OptionError
from pgmo.fit.laws.need import Need

NEED = Need(8, 8, 16, 4, 0, 2, 36, {"default": 40, "pgmo": 37}, 0.02, ("a note",))


def test_context_comes_on_top() -> None:
    assert NEED.total("default") == 42
    assert NEED.fits(42, "default")
    assert not NEED.fits(41, "default")
    assert NEED.fits(41, "pgmo")


def test_categories_are_without_the_context() -> None:
    assert sum(NEED.categories.values()) == NEED.allocated_peak


def test_what_is_not_known_is_asked_for_in_vain() -> None:
    with pytest.raises(OptionError, match="known ways: default, pgmo"):
        NEED.total("expandable")


@pytest.mark.parametrize("change", [{"activations": -1}, {"reserved": {"default": -1}}])
def test_negative_bytes_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="give 0 or more"):
        replace(NEED, **change)  # type: ignore[arg-type]


def test_unknown_ways_are_refused() -> None:
    with pytest.raises(OptionError, match="unknown way"):
        replace(NEED, reserved={"jemalloc": 4})


def test_plain_values() -> None:
    assert NEED.as_json()["reserved"] == {"default": 40, "pgmo": 37}
