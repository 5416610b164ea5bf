"""Search for the largest number that fits."""

from collections.abc import Callable


def largest(fits: Callable[[int], bool], guess: int) -> int:
    """Return a number that fits and whose successor does not; 0 if 1 does not fit."""
    low, high = 0, guess
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
