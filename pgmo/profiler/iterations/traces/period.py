"""Finds the period of a sequence: the iteration, where nothing marks its boundaries.

    w w w  a b b c  a b b c  a b b c  a b  e        period 4, from 3 up to 17

The beginning (warm-up) and the end (an evaluation) may differ. How far apart equal stretches
follow each other gives a few candidates, for stretches of 1, 4, 16 ... elements: the short ones
find short periods, the long ones see through loops within an iteration, such as alike layers. Each
candidate is then checked against the whole sequence, so that nothing rests on chance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_CANDIDATES = 6  # for each length of stretch
_GROWTH = 4


@dataclass(frozen=True)
class Period:
    """A stretch of a sequence that repeats.

    Args:
        length: of the period.
        start: where the stretch begins.
        stop: where it ends; it need not hold a whole number of periods.
    """

    length: int
    start: int
    stop: int

    @property
    def times(self) -> int:
        """How often the whole period is there, 2 at least."""
        return (self.stop - self.start) // self.length


def find_period(sequence: ArrayLike, least_share: float = 0.5) -> Period | None:
    """Finds the longest stretch in which every element equals the one a period later.

    Of periods whose stretches are equally long the shortest is taken. Time grows like n log^2 n.

    Args:
        sequence: whole numbers, shape (n,).
        least_share: the share of the sequence that the stretch must cover. What repeats within a
            smaller part is a loop inside of an iteration, rather than the iteration.

    Returns:
        The period, or None when nothing repeats twice in a row over that much.

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
        for _ in range(2):  # doubles the stretch twice: its name is that of its two halves
            ranks = _pairs(ranks, length)
            length *= 2
    if best is None or best.stop - best.start < least_share * n:
        return None
    return best


def _better(found: Period, best: Period) -> bool:
    covered, most = found.stop - found.start, best.stop - best.start
    return covered > most or (covered == most and found.length < best.length)


def _distances(ranks: NDArray[np.int64]) -> list[int]:
    """How far apart equal stretches mostly follow each other."""
    order = np.argsort(ranks, kind="stable")
    same = ranks[order][1:] == ranks[order][:-1]
    apart = np.diff(order)[same]
    if not apart.size:
        return []
    counts = np.bincount(apart)
    # By how much of the sequence is covered, so that rare elements far apart count, too.
    weight = counts * np.arange(len(counts))
    most = np.unique(
        np.concatenate([np.argsort(counts)[-_CANDIDATES:], np.argsort(weight)[-_CANDIDATES:]])
    )
    return [int(distance) for distance in most if counts[distance]]


def _pairs(ranks: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Names stretches of twice the length."""
    joined = ranks[:-length] * (int(ranks.max()) + 1) + ranks[length:]
    _, names = np.unique(joined, return_inverse=True)
    result: NDArray[np.int64] = names.astype(np.int64)
    return result


def _longest_stretch(names: NDArray[np.int64], distance: int) -> Period | None:
    """The longest stretch of that period, if it holds it twice."""
    differ = np.flatnonzero(names[distance:] != names[:-distance])
    edges = np.concatenate([[-1], differ, [len(names) - distance]])
    lengths = np.diff(edges) - 1
    at = int(np.argmax(lengths))
    if lengths[at] < distance:
        return None
    start = int(edges[at]) + 1
    return Period(distance, start, start + int(lengths[at]) + distance)
