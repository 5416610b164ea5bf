"""Assignment of blocks to lanes (rows) of a timeline, so that bars do not overlap."""

from heapq import heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import NEVER

MOST_LANES = 1000
"""Maximum number of addresses with separate lanes. More lanes make viewers slow."""

_Column = NDArray[np.int64]


def in_lanes(
    begin: _Column, end: _Column, place: _Column
) -> tuple[_Column, tuple[int | None, ...]]:
    """Assign bars `[begin, end)` to the fewest lanes without overlap, separately for each `place`.

    If there are more than `MOST_LANES` distinct places (addresses), they share lanes.

    Returns:
        Lane of each bar, from 0, and address of each lane; None for a lane of several addresses.
    """
    apart = len(np.unique(place)) <= MOST_LANES
    key = place if apart else np.zeros_like(place)
    order = np.lexsort((begin, key))
    lane = np.zeros(len(begin), np.int64)
    places: list[int | None] = []
    free_at: list[tuple[int, int]] = []  # time from which a lane is free, and its number
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
    return lane, tuple(places)


def in_one_turn(start: _Column, end: _Column, ticks: int) -> tuple[_Column, _Column, _Column]:
    """Return begin, end and row of each part of a lifetime within one iteration of `ticks`."""
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


def slots_in_one_turn(plan: Plan, rows: _Column) -> tuple[_Column, _Column, _Column, _Column]:
    """Return begin, end, row and offset of each time in an iteration in which a slot is occupied.

    A block with two slots occupies both slots during the whole iteration.
    """
    ticks, start = plan.ticks, plan.start[rows]
    end = np.where(plan.end[rows] == NEVER, ticks, plan.end[rows])
    twice = np.flatnonzero((end - start > ticks) & ~plan.shared[rows])
    start[twice], end[twice] = 0, ticks
    begin, end, of = in_one_turn(start, end, ticks)
    row = np.concatenate([rows[of], rows[twice]])
    offset = np.concatenate([plan.offset[rows[of]], plan.alternate[rows[twice]]])
    begin = np.concatenate([begin, np.zeros_like(twice)])
    return begin, np.concatenate([end, np.full_like(twice, ticks)]), row, offset
