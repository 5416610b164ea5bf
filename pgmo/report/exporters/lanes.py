"""Blocks as bars that do not meet: which lane of a timeline each of them is drawn in."""

from dataclasses import dataclass
from heapq import heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

MOST_LANES = 1000
"""Different addresses up to which each has a lane of its own; viewers get slow with more."""

_Column = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lane of each bar.

    Args:
        lane: shape (p,), from 0; the bars of one lane are apart in time.
        place: of each lane, in order, the address of all its bars; None where they differ.
    """

    lane: _Column
    place: tuple[int | None, ...]


def in_lanes(begin: _Column, end: _Column, place: _Column) -> Lanes:
    """Puts bars into as few lanes as there are bars at once, each address for itself.

    Args:
        begin: first tick, shape (p,).
        end: first tick after it, shape (p,).
        place: address or offset of each, shape (p,). With more than `MOST_LANES` different ones
            they are not kept apart.

    Example:
        >>> lanes = in_lanes(np.array([0, 1, 2]), np.array([2, 3, 4]), np.array([0, 64, 0]))
        >>> lanes.lane.tolist(), lanes.place
        ([0, 1, 0], (0, 64))
    """
    apart = len(np.unique(place)) <= MOST_LANES
    key = place if apart else np.zeros_like(place)
    order = np.lexsort((begin, key))
    lane = np.zeros(len(begin), np.int64)
    places: list[int | None] = []
    free_at: list[tuple[int, int]] = []  # when each lane of this address is free, and its number
    now: int | None = None
    for bar, at, low, high in zip(
        order.tolist(), key[order].tolist(), begin[order].tolist(), end[order].tolist(), strict=True
    ):
        if at != now:
            now, free_at = at, []
        if free_at and free_at[0][0] <= low:
            lane[bar] = free_at[0][1]
            heapreplace(free_at, (high, free_at[0][1]))
        else:
            lane[bar] = len(places)
            heappush(free_at, (high, len(places)))
            places.append(at if apart else None)
    return Lanes(lane, tuple(places))


def in_one_turn(start: _Column, end: _Column, ticks: int) -> tuple[_Column, _Column, _Column]:
    """What lives when in the steady state, between tick 0 and `ticks`.

    A lifetime that ends in a later turn is there once for each turn that it reaches into.

    Args:
        start: first tick, shape (n,).
        end: first tick after it, at most `start + 2 * ticks`, shape (n,).
        ticks: the period.

    Returns:
        Begin, end and row of each piece, shape (p,).

    Example:
        >>> begin, end, row = in_one_turn(np.array([0, 3]), np.array([2, 5]), ticks=4)
        >>> begin.tolist(), end.tolist(), row.tolist()
        ([0, 3, 0], [2, 4, 1], [0, 1, 1])
    """
    rows = np.arange(len(start), dtype=np.int64)
    begins, ends, of = [], [], []
    for turn in range(3):
        low = np.maximum(start - turn * ticks, 0)
        high = np.minimum(end - turn * ticks, ticks)
        there = low < high
        begins.append(low[there])
        ends.append(high[there])
        of.append(rows[there])
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(of)
