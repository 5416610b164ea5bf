"""The smallest card on which a loop runs, by bisection over real runs."""

from collections.abc import Callable
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Bounds:
    """Where a loop begins to run; bytes.

    Args:
        enough: the smallest card that was found to be enough; None if none was.
        too_little: the largest below it that was found to be too little; None where the live bytes,
            in whole MiB, are enough.
        confirmed: whether a second run on either card ended as the first did.
        runs: how many were needed.
    """

    enough: int | None
    too_little: int | None
    confirmed: bool
    runs: int


def step_of(live: int) -> int:
    """How close the bounds come: 0.25 % of the live bytes, in whole MiB."""
    return max(1, live // 400 // MIB) * MIB


def smallest_card(trains: Callable[[int], bool], live: int, peak: int) -> Bounds:
    """Finds the bounds.

    Args:
        trains: whether the loop runs to its end on a card of so many bytes.
        live: bytes below which no allocator can do.
        peak: bytes that the loop took of a large card: where the search begins.
    """
    tried: dict[int, bool] = {}

    def enough(card: int) -> bool:
        if card not in tried:
            tried[card] = trains(card)
        return tried[card]

    step = step_of(live)
    low, high = -(-live // MIB) * MIB, -(-peak // MIB) * MIB
    while not enough(high):
        low, high = high, high + 4 * step
        if high > 2 * peak:
            return Bounds(None, low, False, len(tried))
    while high - low > step:
        middle = (low + high) // 2 // MIB * MIB
        low, high = (low, middle) if enough(middle) else (middle, high)
    if enough(low):  # the live bytes: all else that is low was tried
        return Bounds(low, None, trains(low), len(tried) + 1)
    confirmed = trains(high) and not trains(low)
    return Bounds(high, low, confirmed, len(tried) + 2)
