"""Budgets of a step: bytes, a share of the original model's peak, or the smallest peak."""

import operator
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Literal

from pgmo.errors import OptionError
from pgmo.units import parse_bytes


@dataclass(frozen=True)
class Share:
    """Share of the original model's peak, above 0 and at most 1."""

    part: float

    def of(self, peak: int) -> int:
        """Return the budget in bytes if the original model's peak is `peak` bytes."""
        return int(self.part * peak)


Budget = int | Share | Literal["min"] | None
"""Largest allowed peak: bytes, a share, "min" for the smallest peak found, None for no limit."""


def parse_budget(budget: object) -> Budget:
    """Parse a budget.

    Args:
        budget: bytes, as a whole number or as in `"8 GiB"`; a share, as in `"60%"`, 0.6 or
            `"0.6"`; `"min"`; None. Numbers may also be NumPy's, or tensors without dimensions.

    Raises:
        OptionError: if `budget` is none of these, bytes are negative, or a share is not in (0, 1].

    Example:
        >>> parse_budget("8 KiB"), parse_budget("60%"), parse_budget(0.5), parse_budget("min")
        (8192, Share(part=0.6), Share(part=0.5), 'min')
    """
    if budget is None or (isinstance(budget, str) and budget.strip() == "min"):
        return None if budget is None else "min"
    budget = _number(budget)
    share = _share(budget)
    if share is not None:
        return Share(share)
    if not isinstance(budget, (int, str)) or isinstance(budget, bool):
        raise OptionError(f'the budget is {budget!r}; give bytes, "8 GiB", "60%", or "min"')
    return parse_bytes(budget)


def _number(budget: object) -> object:
    """Convert `"0.5"`, scalar tensors and NumPy's numbers to numbers of Python, if possible."""
    if isinstance(budget, str):
        try:
            return float(budget) if any(mark in budget for mark in ".eE") else budget
        except ValueError:
            return budget
    shape = getattr(budget, "shape", None)
    if shape is not None and tuple(shape) == ():
        try:
            budget = budget.item()  # type: ignore[attr-defined]
        except RuntimeError:
            return budget  # A fake tensor has no contents.
    if isinstance(budget, (bool, float)):
        return budget
    if isinstance(budget, Decimal) or (
        isinstance(budget, Real) and not isinstance(budget, Integral)
    ):
        return float(budget)
    try:
        return operator.index(budget)  # type: ignore[arg-type]
    except TypeError:
        return budget


def _share(budget: object) -> float | None:
    if isinstance(budget, str) and budget.strip().endswith("%"):
        try:
            part = float(budget.strip().removesuffix("%")) / 100
        except ValueError:
            return None
    elif isinstance(budget, float):
        part = budget
    else:
        return None
    if not 0 < part <= 1:
        raise OptionError(
            f"the budget is {budget!r}: a share of the peak must be above 0 and at most 1 "
            "(100%), and bytes a whole number"
        )
    return part
