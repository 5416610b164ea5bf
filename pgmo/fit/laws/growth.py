"""Growth of live memory per step, extrapolated to the script's last step.

live bytes    *          *        the last step that was rehearsed
          *                ......|................  planned steps: rate x (planned - rehearsed)
      *
    1  2  3  ...         120                  4,300: the card is full

The stub computes nothing, so live memory has no noise: a steady rise means that the script keeps
blocks. A rise of the number of parameters also counts, even if memory does not rise steadily:
Gaussian splatting adds parameters only every few hundred steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgmo.allocator.session.verdict.growth import SKIPPED, find_growth
from pgmo.units import format_bytes

_MOST_SPANS = 32
"""Maximum number of spans of steps to compare. If a rehearsal has more steps, spans are longer."""

_LEAST = 1 << 10
"""Minimum growth over all rehearsed steps, in bytes. A scalar tensor occupies 512 bytes."""

_FAR = 1_000_000
"""Limit in steps: growth that fills the card only after this step is ignored if the job's number of
steps is unknown."""


@dataclass(frozen=True)
class StepGrowth:
    """Growth of live memory in a rehearsal.

    Attributes:
        rate: bytes per step.
        rehearsed: number of steps that were rehearsed.
        planned: number of steps that the script makes; None if unknown.
        exact: whether `planned` is exact; otherwise it is an upper limit.
        elements: elements of all parameters at the first and at the last rehearsed step.
    """

    rate: float
    rehearsed: int
    planned: int | None
    exact: bool
    elements: tuple[int, int]

    @property
    def is_bounded(self) -> bool:
        """Return whether the number of steps is known, which bounds the growth."""
        return self.planned is not None

    @property
    def has_more_parameters(self) -> bool:
        """Return whether the number of parameter elements rises."""
        return self.elements[1] > self.elements[0]

    def until(self, step: int) -> int:
        """Return the bytes by which live memory has grown at a step since the history's end."""
        return max(0, round(self.rate * (step - SKIPPED - 1)))

    @property
    def total(self) -> int:
        """Bytes of growth until step `planned`, or until step `rehearsed` if `planned` is None."""
        return self.until(self.rehearsed if self.planned is None else self.planned)

    def last_step(self, spare: int) -> int:
        """Return the last step that fits, if `spare` bytes are left after the history."""
        return SKIPPED + 1 + int(max(0, spare) / self.rate)


def growth_of(known: Mapping[str, Any]) -> StepGrowth | None:
    """Return the growth that an observer has recorded; None if there is none, or too few steps.

    Args:
        known: record of the observer: `levels` with `live` bytes and `elements` after each step,
            and `planned`, the number of steps and whether it is exact.

    Example:
        >>> live = [100 << 20, 300 << 20, *(300 + at << 20 for at in range(30))]
        >>> levels = {"live": live, "elements": [9] * 32}
        >>> found = growth_of({"levels": levels, "planned": [1003, False]})
        >>> round(found.rate) >> 20, found.total >> 20, found.last_step(500 << 20)
        (1, 1000, 503)
        >>> growth_of({"levels": levels | {"live": [300 << 20] * 32}}) is None
        True
    """
    levels = known.get("levels")
    if not levels or len(levels["live"]) <= SKIPPED + 1:
        return None
    live, elements = levels["live"], levels["elements"]
    planned, exact = known.get("planned") or (None, False)
    rate = _steady_rate(live)
    if not rate and elements[-1] > elements[SKIPPED]:
        rate = max(0.0, (live[-1] - live[SKIPPED]) / (len(live) - SKIPPED - 1))
    if not rate:
        return None
    return StepGrowth(rate, len(live), planned, exact, (elements[0], elements[-1]))


@dataclass(frozen=True)
class GrowingJob:
    """Growth as part of an answer.

    `last_step` is the last step that fits on the card. `fits` is whether the job runs to its end;
    False if the number of steps is unknown.
    """

    growth: StepGrowth
    last_step: int
    fits: bool

    @property
    def words(self) -> str:
        """The growth in one clause, as "live memory grows by 12.0 MiB per step"."""
        first, last = self.growth.elements
        more = f", as parameters grow from {first:,} to {last:,} elements in the rehearsed steps"
        found = f"live memory grows by {format_bytes(round(self.growth.rate))} per step"
        return found + (more if self.growth.has_more_parameters else "")

    @property
    def steps(self) -> str:
        """The number of steps in words, as "at most 3,000 steps"."""
        planned = f"{self.growth.planned or 0:,} steps"
        return planned if self.growth.exact else f"at most {planned}"

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        elements = list(self.growth.elements)
        ending = {"last_step": self.last_step, "fits": self.fits}
        return vars(self.growth) | {"elements": elements} | ending


def is_relevant(growth: StepGrowth, spare: int) -> bool:
    """Return whether growth is relevant on a card with `spare` bytes left after the history.

    Small growth is left out, such as 512 bytes per step of a list of scalar losses.
    """
    if growth.planned is not None:
        return growth.has_more_parameters or growth.total > spare // 100
    return growth.last_step(spare) < _FAR


def _steady_rate(live: Sequence[int]) -> float:
    """Return the bytes per step by which live memory rises steadily; 0.0 without a steady rise."""
    width = -(-len(live) // _MOST_SPANS)
    while len(live) // width >= 1:
        # The last span is left out if it has fewer steps than the other spans.
        spans = [min(live[at : at + width]) for at in range(0, len(live) - width + 1, width)]
        found = find_growth(width, [(one, one) for one in spans], least_growth=_LEAST)
        if found is not None:
            return found.rate
        width *= 2
    return 0.0
