"""Disjoint address ranges, such as the segments of a device or the live blocks of an arena."""

from bisect import bisect_left, bisect_right
from typing import Final

_MOST: Final = 1024  # Maximum length of a list before it is split.


class Ranges:
    """Set of disjoint address ranges. A new range replaces the ranges that it overlaps.

    Ranges are stored in sorted lists of at most `_MOST` ranges, so that insertion stays cheap.
    """

    def __init__(self) -> None:
        self._runs: list[list[tuple[int, int]]] = [[]]  # No list is empty if there are several.
        self._lows: list[int] = [0]  # Address at which each list begins.

    def replace(self, address: int, size: int) -> list[tuple[int, int]]:
        """Insert a range; return the ranges that it overlaps and replaces, as (address, bytes)."""
        runs, lows = self._runs, self._lows
        at = max(0, bisect_right(lows, address) - 1)
        run = runs[at]
        first = bisect_left(run, (address, 0))
        if first and sum(run[first - 1]) > address:
            first -= 1
        gone: list[tuple[int, int]] = []
        while True:
            last = bisect_left(run, (address + size, 0))
            gone += run[first:last]
            del run[first:last]
            if first < len(run) or at + 1 == len(runs) or lows[at + 1] >= address + size:
                break
            run += runs.pop(at + 1)
            del lows[at + 1]
        run.insert(first, (address, size))
        lows[at] = run[0][0]
        if len(run) > _MOST:
            half = len(run) // 2
            runs.insert(at + 1, run[half:])
            del run[half:]
            lows.insert(at + 1, runs[at + 1][0][0])
        return gone

    def remove(self, address: int) -> None:
        """Remove the range that begins at `address`. There must be one."""
        at = bisect_right(self._lows, address) - 1
        run = self._runs[at]
        del run[bisect_left(run, (address, 0))]
        if not run and len(self._runs) > 1:
            del self._runs[at], self._lows[at]
