"""What has to be on the device next, and what may wait on the host: from the plan alone.

    ticks      0 ───────────────▶ 9        room: 3 of the 5 slots
    slot a     ▓▓▓▓                          needed first   ─┐
    slot b       ▓▓▓▓▓▓                      needed second   ├─ to the device
    slot c          ▓▓▓▓▓                    needed third   ─┘
    slot d                ▓▓▓▓               later: stays where it is
    slot e     ▓▓───────────────▓            alive, and not needed before its end: to the host

When a block that is alive will be read is not known, except that it is before its end; one that is
born is written at once. So slots are needed in the order of births and ends.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.units import format_bytes


@dataclass(frozen=True)
class Moves:
    """Ranges of the arena as (begin, end), in bytes; disjoint.

    Args:
        to_device: in the order in which they are needed.
        to_host: in the order of offsets.

    Example:
        >>> Moves(((0, 512),), ())
        Moves(512 B to the device in 1 ranges, 0 B to the host)
    """

    to_device: tuple[tuple[int, int], ...]
    to_host: tuple[tuple[int, int], ...]

    def __repr__(self) -> str:
        there, back = (
            sum(end - begin for begin, end in ranges) for ranges in (self.to_device, self.to_host)
        )
        return (
            f"Moves({format_bytes(there)} to the device in {len(self.to_device)} ranges, "
            f"{format_bytes(back)} to the host)"
        )


def moves(plan: Plan, room: int, tick: int = 0) -> Moves:
    """What to move at a tick, so that what follows finds its memory on the device.

    Args:
        plan: of an iteration.
        room: bytes that fit on the device.
        tick: from which on; 0 is the beginning of an iteration.

    Returns:
        As much of what is needed first as there is room for, and of the rest that which is alive.
        O(n log n) for n slots.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> from pgmo.profiler.profile import Profile
        >>> profile = Profile.from_columns(
        ...     size=[64, 64, 32], start=[0, 1, 2], end=[3, 2, 3], ticks=3
        ... )
        >>> moves(plan(profile, alignment=1), room=100).to_device
        ((0, 64),)
    """
    begin, end, need, alive = _slots(plan, tick)
    chosen = _Ranges()
    order = np.argsort(need, kind="stable")
    first: list[int] = []  # where each range begins that is needed, in order
    for slot in order.tolist():
        if chosen.added(int(begin[slot]), int(end[slot])) + chosen.bytes > room:
            break
        chosen.add(int(begin[slot]), int(end[slot]))
        first.append(int(begin[slot]))
    ranges = list(dict.fromkeys(chosen.holding(at) for at in first))
    rest = _Ranges()
    for slot in np.flatnonzero(alive).tolist():
        for piece in chosen.outside(int(begin[slot]), int(end[slot])):
            rest.add(*piece)
    return Moves(tuple(ranges), tuple(rest.all))


_Column = NDArray[np.int64]


def _slots(plan: Plan, tick: int) -> tuple[_Column, _Column, _Column, NDArray[np.bool_]]:
    """Begin and end of each slot, ticks until it is needed, and whether it is alive at the tick."""
    period = max(1, plan.ticks)
    twice = plan.alternate != UNPLANNED
    rows = np.concatenate([np.flatnonzero(plan.offset != UNPLANNED), np.flatnonzero(twice)])
    begin = np.concatenate([plan.offset[plan.offset != UNPLANNED], plan.alternate[twice]])
    start, stop = plan.start[rows], plan.end[rows]
    since = (tick - start) % period  # since its latest birth; 0: born now
    alive = (since > 0) & (since < stop - start)
    until_end = stop - start - since
    need = np.where(alive, until_end - 1, -since % period)
    return begin, begin + plan.size[rows], need, alive


class _Ranges:
    """Disjoint ranges, in the order of offsets."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int]] = []
        self.bytes = 0

    def outside(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The pieces of a range that are in none of these."""
        pieces = []
        for low, high in self._touching(begin, end):
            if begin < low:
                pieces.append((begin, low))
            begin = max(begin, high)
        return [*pieces, (begin, end)] if begin < end else pieces

    def added(self, begin: int, end: int) -> int:
        """Bytes that a range would add."""
        return sum(high - low for low, high in self.outside(begin, end))

    def add(self, begin: int, end: int) -> None:
        """Adds a range; it grows together with those that it touches."""
        self.bytes += self.added(begin, end)
        touching = self._touching(begin, end)
        at = bisect_left(self.all, touching[0]) if touching else bisect_left(self.all, (begin, end))
        low = min([begin, *(low for low, _ in touching)])
        high = max([end, *(high for _, high in touching)])
        self.all[at : at + len(touching)] = [(low, high)]

    def holding(self, offset: int) -> tuple[int, int]:
        """The range that an offset lies in."""
        return self.all[bisect_right(self.all, (offset, np.iinfo(np.int64).max)) - 1]

    def _touching(self, begin: int, end: int) -> list[tuple[int, int]]:
        first = bisect_left(self.all, (begin, -1))
        if first and self.all[first - 1][1] >= begin:
            first -= 1
        last = bisect_right(self.all, (end, np.iinfo(np.int64).max))
        return self.all[first:last]
