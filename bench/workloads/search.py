"""Search for the largest number that fits."""

from collections.abc import Callable
from typing import Any


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


def largest_batch(reserved: Callable[[int], int | None], guess: int) -> dict[str, Any]:
    """Return the largest batch that trains, the least that fails, and the bytes of each batch.

    Args:
        reserved: trains on a batch; returns the bytes that PyTorch reserved, None if it ran out of
            memory.
        guess: first batch.
    """
    sizes: dict[int, int] = {}

    def trains(batch: int) -> bool:
        size = reserved(batch)
        if size is not None:
            sizes[batch] = size
        return size is not None

    found = largest(trains, guess)
    return {"largest_batch": found, "least_that_fails": found + 1, "reserved": sizes}
