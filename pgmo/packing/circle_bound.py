"""What no packing on a circle of lifetimes can go below, though every tick needs less.

    period 10                       Five blocks of one byte, each alive for 3 of 10 ticks and two
    0    2    4    6    8           at any tick. Blocks at one offset are never alive together, so
    |==A==|  |==C==|  |==E==        an offset holds at most two of the five: two bytes would hold
    ==E|   |==B==|  |==D==|         four, and the arena has three.

In general blocks have weights, and an offset holds at most the largest weight W of blocks of which
no two meet. So an arena has at least (sum of size times weight) / W bytes. On a line the best
weights give the max load. On a circle they may give more.
"""

import math
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.problem import Problem

CIRCLE_BLOCKS = 250
"""Blocks up to which weights are sought: with these it takes about half a second."""

_ROUNDS = 40
_SCALE = 2**24  # of the largest weight, which are whole numbers so that the bound is exact


def circle_bound(problem: Problem, arena: int, time_limit: float = math.inf) -> int:
    """Bytes that no packing of a circular problem can be below, by blocks that never meet.

    Args:
        problem: the blocks.
        arena: bytes that some packing needs, which weights are to explain.
        time_limit: seconds.

    Returns:
        Bytes, a multiple of what all aligned sizes have in common; 0 for a line, and for more than
        `CIRCLE_BLOCKS` blocks. The same for the same problem, if the time suffices.

    Example:
        >>> circle_bound(Problem([1] * 5, [0, 2, 4, 6, 8], [3, 5, 7, 9, 11], period=10), 5)
        3

    Source:
        The steps are those of Polyak 1969, "Minimization of unsmooth functionals".
    """
    if not problem.period or not 0 < len(problem) <= CIRCLE_BLOCKS:
        return 0
    size = problem.aligned
    unit = int(np.gcd.reduce(size))
    end = time.perf_counter() + time_limit
    apart, peak, best = _Apart(problem), _peak(problem), 0
    load = int(size[peak].sum())
    # Those that give the max load, and equal ones; some bounds are found on the way to a near aim.
    for weight in (np.ones(len(size)), peak.astype(float)):
        for aim in (arena, load + unit):
            for value in _ascent(apart, size // unit, weight, aim / unit):
                best = max(best, value * unit)
                if best >= arena or time.perf_counter() > end:
                    return best
    return best


def _ascent(
    apart: "_Apart", size: NDArray[np.int64], weight: NDArray[np.float64], aim: float
) -> Iterator[int]:
    """Bounds in units, from weights that are to prove `aim`."""
    root = np.sqrt(size)
    for _ in range(_ROUNDS):
        weight = weight / weight.max()
        whole = np.round(weight * _SCALE).astype(np.int64)
        largest, chosen = apart.heaviest(whole)
        value = sum(one * by for one, by in zip(size.tolist(), whole.tolist(), strict=True))
        yield -(-value // largest)
        slope = root.copy()
        slope[chosen] -= aim / root[chosen]
        lack = aim * largest / _SCALE - float((size * weight).sum())
        if lack <= 0:
            return
        weight = np.maximum(0, weight + lack / float((slope**2).sum()) * slope / root)
        if weight.max() <= 0:
            return


def _peak(problem: Problem) -> NDArray[np.bool_]:
    """The blocks alive at the tick where most bytes are."""
    length = problem.upper - problem.lower
    alive = [(tick - problem.lower) % problem.period < length for tick in problem.lower]
    return max(alive, key=lambda one: int(problem.aligned[one].sum()))


class _Apart:
    """Sets of blocks of which no two are alive together.

    Either such a set has none of the blocks that are alive at some tick, or one of them, and then
    nothing else of its lifetime. In each case what remains is a line.
    """

    def __init__(self, problem: Problem) -> None:
        period = problem.period
        lower, length = problem.lower, problem.upper - problem.lower
        alive = [((tick - lower) % period < length).sum() for tick in lower]
        cut = lower[int(np.argmin(alive))]
        across = np.flatnonzero((cut - lower) % period < length)
        lines = [self._line(cut, period, lower, length, period)]
        lines[0] = (lines[0][0][~np.isin(lines[0][0], across)], lines[0][1], lines[0][2])
        self._first = [-1, *across.tolist()]
        for block in across:
            begin = lower[block] + length[block]
            lines.append(self._line(begin, period - length[block], lower, length, period))
        self._lines = [self._ordered(*line) for line in lines]

    @staticmethod
    def _line(
        begin: int, room: int, lower: NDArray[np.int64], length: NDArray[np.int64], period: int
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
        """Blocks that live within so many ticks from `begin` on, and all beginnings and ends."""
        start = (lower - begin) % period
        return np.flatnonzero(start + length <= room), start, start + length

    @staticmethod
    def _ordered(
        blocks: NDArray[np.intp], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> tuple[list[int], list[int]]:
        """Blocks by their ends, and how many of them have ended when each begins."""
        blocks = blocks[np.argsort(end[blocks], kind="stable")]
        before = np.searchsorted(end[blocks], start[blocks], side="right")
        return blocks.tolist(), before.tolist()

    def heaviest(self, weight: NDArray[np.int64]) -> tuple[int, list[int]]:
        """The largest weight of such a set, and its blocks."""
        weights = weight.tolist()
        largest, best = -1, 0
        tables = []
        for at, (blocks, before) in enumerate(self._lines):
            table = [0]
            for block, ended in zip(blocks, before, strict=True):
                table.append(max(table[-1], table[ended] + weights[block]))
            tables.append(table)
            first = self._first[at]
            total = table[-1] + (weights[first] if first >= 0 else 0)
            if total > largest:
                largest, best = total, at
        blocks, before = self._lines[best]
        table = tables[best]
        chosen = [self._first[best]] if self._first[best] >= 0 else []
        count = len(blocks)
        while count:
            if table[count] == table[count - 1]:
                count -= 1
            else:
                chosen.append(blocks[count - 1])
                count = before[count - 1]
        return largest, chosen
