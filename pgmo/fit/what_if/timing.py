"""Time of a step on a card: a lower bound from its rates, or scaled from a measured step.

Each operator takes the longer of two times: its arithmetic at the card's peak rate, and its traffic
at the memory bandwidth (the roofline of Williams, Waterman and Patterson, 2009). The sum over all
operators is a lower bound. The ratio of a measured time to its bound is assumed on all cards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgmo.cards import Card
from pgmo.errors import OptionError

_FALL_BACK = {"bfloat16": "float16", "float16": "float32", "tf32": "float32"}
"""Data type whose rate replaces a rate that the card lacks."""

HOUR, DAY = 3600.0, 86400.0

_UNITS = (
    (1.0, "ms", 1e-3),
    (120.0, "s", 1.0),
    (2 * HOUR, "minutes", 60.0),
    (3 * DAY, "hours", HOUR),
)


@dataclass(frozen=True)
class TimedStep:
    """Measured time of an optimizer step in seconds, and the card that ran it."""

    seconds: float
    card: Card


@dataclass(frozen=True)
class Forecast:
    """Forecast of the time on a card.

    Attributes:
        step: seconds of one optimizer step; a lower bound unless `measured`.
        total: seconds of the whole job; None if its length is unknown.
        measured: whether the forecast is scaled from a measured step.
    """

    step: float
    total: float | None
    measured: bool

    @property
    def words(self) -> str:
        """The time in words, as "about 3 hours" if measured, else "at least 3 hours".

        The time of one step, as "about 40 ms a step", if the length of the job is unknown.
        """
        seconds = self.step if self.total is None else self.total
        kind = "about" if self.measured else "at least"
        each = " a step" if self.total is None else ""
        return f"{kind} {in_words(seconds)}{each}"


def bound(work: Sequence[Sequence[Any]], card: Card) -> float | None:
    """Return the least seconds of a step on a card; None if the rates or the work are unknown.

    Each row of `work` has data type, flops, bytes and count of one kind of operator.
    """
    if card.anonymous or not work:
        return None
    total = 0.0
    for kind, flops, moved, count in work:
        total += count * max(flops / rate(card, kind) if flops else 0.0, moved / card.bandwidth)
    return total


def rate(card: Card, kind: str) -> float:
    """Return the peak operations per second of a type, or of its fallback on this card."""
    while kind not in card.flops:
        kind = _FALL_BACK.get(kind, "float32")
    return card.flops[kind]


def forecast(
    work: Sequence[Sequence[Any]],
    card: Card,
    *,
    steps: float | None = None,
    measured: TimedStep | None = None,
    reference: Sequence[Sequence[Any]] | None = None,
) -> Forecast | None:
    """Return the forecast of the time on a card; None if it is unknown.

    Args:
        work: operators of one optimizer step at the batch of the forecast, as for `bound`.
        card: the card.
        steps: optimizer steps of the job, or None.
        measured: a timed step on any card.
        reference: operators of the timed step if its batch differs; default `work`.

    Raises:
        OptionError: if the measured step is shorter than its card's rates allow.
    """
    least = bound(work, card)
    if least is None:
        return None
    factor = 1.0
    if measured is not None:
        there = bound(reference or work, measured.card)
        if there is None:
            return None
        if measured.seconds < there:
            raise OptionError(
                f"a step of {measured.seconds:g} s is faster than {measured.card.name} can be "
                f"({there:.3g} s at its peak rates): give the seconds of a whole optimizer "
                "step"
            )
        factor = measured.seconds / there
    step = least * factor
    return Forecast(step, None if steps is None else step * steps, measured is not None)


def scaled(work: Sequence[Sequence[Any]], value: int, to: int) -> list[list[Any]]:
    """Scale the work to another batch as if all of it grew with the batch: an upper bound."""
    factor = to / value
    return [
        [kind, flops * factor, int(moved * factor), count] for kind, flops, moved, count in work
    ]


def in_words(seconds: float) -> str:
    """Format a duration in milliseconds, seconds, minutes, hours or days."""
    for most, unit, size in _UNITS:
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / DAY:.1f} days"
