"""Where the arenas of several streams lie in the one range of offsets that plans speak of.

    plan A    stream 0 [0, 90)    stream 1 [90, 120)
    plan B    stream 0 [0, 40)    stream 1 [40, 110)
    layout    stream 0 [0, 90)    stream 1 [90, 160)      as large as the largest, for each stream

Plans put streams behind each other, each plan in its own way; in the layout a stream begins at the
same offset for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import UNPLANNED, Plan


@dataclass(frozen=True)
class Range:
    """A stream's part of the layout: offsets from `begin` on, `size` bytes."""

    begin: int
    size: int


class Layout:
    """One range for each stream that any of the plans uses.

    Example:
        >>> from pgmo.packing.portfolio import plan
        >>> from pgmo.profiler.profile import Profile
        >>> one = plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        >>> Layout([one]).ranges
        {0: Range(begin=0, size=64)}
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        sizes: dict[int, int] = {}
        for plan in plans:
            for stream, (low, high) in extents(plan).items():
                sizes[stream] = max(sizes.get(stream, 0), high - low)
        self.ranges: dict[int, Range] = {}
        begin = 0
        for stream in sorted(sizes):
            self.ranges[stream] = Range(begin, sizes[stream])
            begin += sizes[stream]
        self.size = begin

    def covers(self, other: "Layout") -> bool:
        """Whether plans made for another layout find room in this one."""
        return all(
            stream in self.ranges and self.ranges[stream].size >= needed.size
            for stream, needed in other.ranges.items()
        )

    def place(self, plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A plan's offsets and alternates in this layout."""
        offset, alternate = plan.offset.copy(), plan.alternate.copy()
        for stream, (low, _) in extents(plan).items():
            shift = self.ranges[stream].begin - low
            for column in (offset, alternate):
                column[(plan.stream == stream) & (column != UNPLANNED)] += shift
        return offset, alternate


def extents(plan: Plan) -> dict[int, tuple[int, int]]:
    """Lowest offset and end of each stream's slots.

    Example:
        >>> from pgmo.packing.portfolio import plan
        >>> from pgmo.profiler.profile import Profile
        >>> extents(plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)))
        {0: (0, 64)}
    """
    size = -(-plan.size // plan.alignment) * plan.alignment
    extents = {}
    for stream in np.unique(plan.stream[plan.offset != UNPLANNED]):
        rows = (plan.stream == stream) & (plan.offset != UNPLANNED)
        low = int(plan.offset[rows].min())
        high = int((plan.offset + size)[rows].max())
        second = rows & (plan.alternate != UNPLANNED)
        if np.any(second):
            low = min(low, int(plan.alternate[second].min()))
            high = max(high, int((plan.alternate + size)[second].max()))
        extents[int(stream)] = (low, high)
    return extents
