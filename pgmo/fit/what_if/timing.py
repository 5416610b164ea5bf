"""How long a step takes on a card: bounded from below by its rates, or scaled from a measured step.

Each operator takes as long as its arithmetic at the card's peak rate, or as its traffic at the
memory's bandwidth, whichever is more (the roofline of Williams, Waterman and Patterson, 2009). The
sum is a bound: kernels reach less, and launching them takes time. A step that was measured on one
card says how far above the bound the script is; elsewhere it is taken to be as far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgmo.cards import Card
from pgmo.errors import OptionError

_FALL_BACK = {"bfloat16": "float16", "float16": "float32", "tf32": "float32"}
"""What a type runs at where the card has no rate for it."""

HOUR, DAY = 3600.0, 86400.0

_UNITS = (
    (1.0, "ms", 1e-3),
    (120.0, "s", 1.0),
    (2 * HOUR, "minutes", 60.0),
    (3 * DAY, "hours", HOUR),
)


@dataclass(frozen=True)
class TimedStep:
    """Measured time of an optimizer step on a card.

    Attributes:
        seconds: of one optimizer step.
        card: on which card.
    """

    seconds: float
    card: Card


@dataclass(frozen=True)
class Forecast:
    """Time on a card.

    Attributes:
        step: seconds of an optimizer step; a lower bound unless `measured`.
        total: seconds of the whole job; None where its length is not known.
        measured: whether a measured step is behind it.

    Example:
        >>> Forecast(0.5, 7200.0, False).words
        'at least 2 hours'
    """

    step: float
    total: float | None
    measured: bool

    @property
    def words(self) -> str:
        """The time in words, with what kind of figure it is."""
        seconds = self.step if self.total is None else self.total
        kind = "about" if self.measured else "at least"
        each = " a step" if self.total is None else ""
        return f"{kind} {in_words(seconds)}{each}"


def bound(work: Sequence[Sequence[Any]], card: Card) -> float | None:
    """The least seconds that an iteration takes on a card; None for a card without rates.

    Args:
        work: for each kind of operator its type, flops, bytes moved, and how often.
        card: the card.

    Example:
        >>> card = Card("x", 1, 1, (8, 0), 1, bandwidth=10.0, flops={"float32": 100.0})
        >>> bound([["float32", 500.0, 10, 2], ["", 0.0, 30, 1]], card)
        13.0
    """
    if card.anonymous or not work:
        return None
    total = 0.0
    for kind, flops, moved, count in work:
        total += count * max(flops / rate(card, kind) if flops else 0.0, moved / card.bandwidth)
    return total


def rate(card: Card, kind: str) -> float:
    """Peak operations a second of a type, or of what the card uses for want of it."""
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
    """Time on a card; None where nothing can be said.

    Args:
        work: of one optimizer step there.
        card: the card.
        steps: optimizer steps of the job, or None.
        measured: a step that was timed somewhere.
        reference: the work of that step, where it is another batch; `work` otherwise.

    Raises:
        OptionError: when the measured step is shorter than its card's rates allow.
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
                f"a step of {measured.seconds:g} s is less than {measured.card.name} allows "
                f"({there:.3g} s at its peak rates): give the seconds of an optimizer step"
            )
        factor = measured.seconds / there
    step = least * factor
    return Forecast(step, None if steps is None else step * steps, measured is not None)


def scaled(work: Sequence[Sequence[Any]], value: int, to: int) -> list[list[Any]]:
    """The work at another batch, as if all of it grew with the batch: an upper bound.

    What does not grow, as the optimizer, is little beside the rest.

    Example:
        >>> scaled([["float32", 10.0, 4, 1]], 2, 4)
        [['float32', 20.0, 8, 1]]
    """
    factor = to / value
    return [
        [kind, flops * factor, int(moved * factor), count] for kind, flops, moved, count in work
    ]


def in_words(seconds: float) -> str:
    """Seconds, minutes, hours or days.

    Example:
        >>> in_words(0.012), in_words(5400), in_words(14_400_000)
        ('12 ms', '90 minutes', '166.7 days')
    """
    for most, unit, size in _UNITS:
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / DAY:.1f} days"
