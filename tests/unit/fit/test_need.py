"""Tests that the parts of a need add up, and that impossible needs are refused."""

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
    with pytest.raises(OptionError, match="known ways: default, pgmo"):
        NEED.total("expandable")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"activations": -1}, "give 0 or more"),
        ({"reserved": {"default": -1}}, "give 0 or more"),
        ({"reserved": {"jemalloc": 4}}, "unknown way"),
    ],
)
def test_impossible_needs_are_refused(change: dict[str, object], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        replace(NEED, **change)  # type: ignore[arg-type]
