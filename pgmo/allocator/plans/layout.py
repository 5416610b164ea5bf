"""Layout of all arenas in one range of offsets.

Each plan places its streams one after another. In a layout, a stream's arena begins at the same
offset for all plans.

    plan A    stream 0 [0, 90)    stream 1 [90, 120)
    plan B    stream 0 [0, 40)    stream 1 [40, 110)
    layout    stream 0 [0, 90)    stream 1 [90, 160)      the largest size for each stream
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import distinct
from pgmo.packing.plan import UNPLANNED, Plan

_LEAST_ROOM = 1 << 30


class Layout:
    """Ranges of device memory for each stream of the plans, then ranges for spilled slots.

    Args:
        plans: the plans.
        roomy: whether to make ranges of device memory larger than needed, so that later plans fit.
            Use this if the ranges are only addresses, which need no memory.

    Attributes:
        ranges: ranges of device memory, by stream. If all slots of a stream are spilled, its range
            is as small as possible.
        spilled: ranges of unified memory for spilled slots, by stream, after `ranges`.
        resident: bytes of `ranges`.
        size: bytes of all ranges.
    """

    def __init__(self, plans: Sequence[Plan], *, roomy: bool = False) -> None:
        device: dict[int, int] = {}
        host: dict[int, int] = {}
        for plan in plans:
            for stream, (low, high) in extents(plan).items():
                device[stream] = max(device.get(stream, 0), high - low)
            for stream, (low, high) in extents(plan, spilled=True).items():
                host[stream] = max(host.get(stream, 0), high - low)
                device[stream] = max(device.get(stream, 0), plan.alignment)
        if roomy:  # two to four times as many addresses, for plans that grow
            device = {
                stream: max(_LEAST_ROOM, 1 << (2 * size - 1).bit_length())
                for stream, size in device.items()
            }
        self.ranges, self.resident = _successive_ranges(device, 0)
        self.spilled, self.size = _successive_ranges(host, self.resident)

    @property
    def spill_size(self) -> int:
        """Bytes of unified memory, for spilled slots."""
        return self.size - self.resident

    def covers(self, other: "Layout") -> bool:
        """Return whether the plans of another layout fit into this layout."""
        return all(
            len(own.get(stream, ())) >= len(needed)
            for own, theirs in ((self.ranges, other.ranges), (self.spilled, other.spilled))
            for stream, needed in theirs.items()
        )

    def place(self, plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a plan's offsets and alternate offsets in this layout, shape (requests,) each."""
        offset, alternate = plan.offset.copy(), plan.alternate.copy()
        for ranges, spilled in ((self.ranges, False), (self.spilled, True)):
            for stream, (low, _) in extents(plan, spilled=spilled).items():
                rows = (plan.stream == stream) & _slots(plan, spilled)
                shift = ranges[stream].start - low
                offset[rows] += shift
                alternate[rows & (plan.alternate != UNPLANNED)] += shift
        return offset, alternate


def _successive_ranges(sizes: dict[int, int], begin: int) -> tuple[dict[int, range], int]:
    ranges = {}
    for stream in sorted(sizes):
        ranges[stream] = range(begin, begin + sizes[stream])
        begin += sizes[stream]
    return ranges, begin


def _slots(plan: Plan, spilled: bool) -> NDArray[np.bool_]:
    """Return a mask of the rows whose slots are in unified (`spilled`) or in device memory."""
    low, high = (plan.resident, plan.arena) if spilled else (0, plan.resident)
    return (plan.offset >= low) & (plan.offset < high)


def extents(plan: Plan, *, spilled: bool = False) -> dict[int, tuple[int, int]]:
    """Return the lowest offset and the end of each stream's resident or spilled slots, in bytes."""
    size = -(-plan.size // plan.alignment) * plan.alignment
    extents = {}
    slots = _slots(plan, spilled)
    for stream in distinct(plan.stream[slots]):
        rows = (plan.stream == stream) & slots
        second = rows & (plan.alternate != UNPLANNED)
        low = np.concatenate((plan.offset[rows], plan.alternate[second]))
        high = low + np.concatenate((size[rows], size[second]))
        extents[int(stream)] = (int(low.min()), int(high.max()))
    return extents
