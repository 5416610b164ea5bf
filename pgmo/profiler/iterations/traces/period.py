"""Search for the period of a sequence: the iteration of a trace without marks.

    w w w  a b b c  a b b c  a b b c  a b  e        period 4, from 3 up to 17

The beginning (warm-up) and the end (an evaluation) may differ. Distances between equal stretches of
1, 4, 16 ... elements give a few candidate periods. Short stretches find short periods. Long
stretches are longer than loops within an iteration, such as equal layers. Each candidate is then
checked against the whole sequence.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_CANDIDATES = 6  # Per stretch length, by count and again by weight.
_GROWTH = 4


@dataclass(frozen=True)
class Period:
    """Stretch of a sequence in which a period repeats, perhaps not a whole number of times."""

    length: int
    start: int
    stop: int

    @property
    def times(self) -> int:
        """Number of whole periods in the stretch, at least 2."""
        return (self.stop - self.start) // self.length


def find_period(sequence: ArrayLike, least_share: float = 0.5) -> Period | None:
    """Find the longest stretch of a sequence that repeats with a candidate period.

    Among equally long stretches the shortest period wins. The time is O(n log^2 n). Return None if
    no stretch is long enough.

    Args:
        sequence: integers, shape (n,).
        least_share: minimum share of the sequence that the stretch must cover. A smaller stretch is
            probably a loop inside of an iteration.

    Example:
        >>> find_period([9, 1, 2, 2, 3, 1, 2, 2, 3, 1, 2])
        Period(length=4, start=1, stop=11)
        >>> find_period([1, 2, 3, 4]) is None
        True
    """
    values = np.asarray(sequence)
    n = len(values)
    if n < 2:
        return None
    _, names = np.unique(values, return_inverse=True)
    names = names.astype(np.int64)
    tried: set[int] = set()
    best: Period | None = None
    length, ranks = 1, names
    while True:
        for distance in _distances(ranks):
            if distance in tried or 2 * distance > n:
                continue
            tried.add(distance)
            found = _longest_stretch(names, distance)
            if found is not None and (best is None or _better(found, best)):
                best = found
        if 2 * _GROWTH * length > n:
            break
        # Double the stretch twice; the numbers of its halves determine its number.
        for _ in range(2):
            ranks = _pairs(ranks, length)
            length *= 2
    if best is None or best.stop - best.start < least_share * n:
        return None
    return best


def _better(found: Period, best: Period) -> bool:
    covered, most = found.stop - found.start, best.stop - best.start
    return covered > most or (covered == most and found.length < best.length)


def _distances(ranks: NDArray[np.int64]) -> list[int]:
    """Return the most common distances between successive equal stretches."""
    order = np.argsort(ranks, kind="stable")
    same = ranks[order][1:] == ranks[order][:-1]
    apart = np.diff(order)[same]
    if not apart.size:
        return []
    counts = np.bincount(apart)
    # Weight by the covered part of the sequence, so that rare elements far apart count, too.
    weight = counts * np.arange(len(counts))
    most = np.unique(
        np.concatenate([np.argsort(counts)[-_CANDIDATES:], np.argsort(weight)[-_CANDIDATES:]])
    )
    return [int(distance) for distance in most if counts[distance]]


def _pairs(ranks: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Number the stretches of twice the length; equal stretches get equal numbers."""
    joined = ranks[:-length] * (int(ranks.max()) + 1) + ranks[length:]
    _, names = np.unique(joined, return_inverse=True)
    result: NDArray[np.int64] = names.astype(np.int64)
    return result


def _longest_stretch(names: NDArray[np.int64], distance: int) -> Period | None:
    """Return the longest stretch with this period, or None if it is shorter than two periods."""
    differ = np.flatnonzero(names[distance:] != names[:-distance])
    edges = np.concatenate([[-1], differ, [len(names) - distance]])
    lengths = np.diff(edges) - 1
    at = int(np.argmax(lengths))
    if lengths[at] < distance:
        return None
    start = int(edges[at]) + 1
    return Period(distance, start, start + int(lengths[at]) + distance)
