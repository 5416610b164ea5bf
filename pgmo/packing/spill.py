"""Choice of the blocks to spill from device memory, so that a plan fits a budget.

arena   [   resident        |  spilled          ]  -> offsets
         up to the budget:     blocks with the longest lifetimes:
         device memory         unified memory, on the host

A spilled block is assumed to be written once and read once over the bus. So for the same traffic, a
block with a longer lifetime frees device memory for a longer time. At ticks where the
load exceeds the budget, blocks are spilled until the load of the resident blocks fits. Blocks with
the longest lifetimes are spilled first. Then spilled blocks that still fit return to device memory.
If the resident blocks' arena exceeds the budget, more blocks are spilled.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import distinct
from pgmo.errors import BudgetError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.problem import Problem
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile

_Mask = NDArray[np.bool_]


def least_budget(profile: "Profile", alignment: int) -> int:
    """Return the smallest possible budget in bytes: the load of persistent and of shared blocks."""
    size = -(-profile.size // alignment) * alignment
    shared = profile.shared & ~profile.persistent
    load = 0
    if shared.any():
        # Two copies of a block that lives longer than a period may be alive at once.
        lives = np.minimum(profile.end[shared] - profile.start[shared], profile.ticks)
        problem = Problem(
            size[shared],
            profile.start[shared],
            profile.start[shared] + lives,
            period=profile.ticks if profile.circular else 0,
        )
        over = profile.end[shared] - profile.start[shared] > profile.ticks
        load = max_load(problem) + int(size[shared][over].sum())
    return int(size[profile.persistent].sum()) + load


def room_for_slots(profile: "Profile", budget: int, alignment: int) -> int:
    """Return the bytes that a budget leaves for slots. Raise BudgetError below `least_budget`."""
    least = least_budget(profile, alignment)
    if budget < least:
        raise BudgetError(
            f"the budget of {format_bytes(budget)} cannot be met: blocks that are never freed, or "
            f"that several streams share, have no slot and need {format_bytes(least)} by "
            f"themselves; the smallest budget is {least} bytes"
        )
    return budget - least


def choose(problem: Problem, group: NDArray[np.int64], room: int) -> _Mask:
    """Choose the blocks to spill so that the load of the other blocks is at most `room` bytes.

    Args:
        problem: m entries.
        group: group of each entry, shape (m,). Entries of one group are spilled together, such as
            the two slots of a block that lives longer than a period.
        room: bytes for the entries that stay.

    Returns:
        Whether each entry is spilled, shape (m,).

    Example:
        >>> problem = Problem([4, 4, 4], [0, 1, 2], [4, 3, 3])
        >>> choose(problem, np.arange(3), room=8).tolist()
        [True, False, False]
    """
    spilled = np.zeros(len(problem), bool)
    if not len(problem):
        return spilled
    numbered = problem.numbered()
    size = problem.aligned
    load = _Load(numbered, size)
    life = problem.upper - problem.lower
    order = np.lexsort((size, -life))
    entries = _entries_of(group)
    taken: list[int] = []
    seen: set[int] = set()
    for entry in order.tolist():
        if load.most <= room:
            break
        one = int(group[entry])
        if one in seen:
            continue
        seen.add(one)
        if max(load.highest(at) for at in entries[one]) > room:
            for at in entries[one]:
                load.change(at, -1)
            taken.append(one)
    # Try to keep the largest blocks first, because this saves the most traffic.
    for one in sorted(taken, key=lambda one: -int(size[entries[one]].sum())):
        for at in entries[one]:
            load.change(at, 1)
        if max(load.highest(at) for at in entries[one]) > room:
            spilled[entries[one]] = True
            for at in entries[one]:
                load.change(at, -1)
    return spilled


def fit(
    problem: Problem,
    group: NDArray[np.int64],
    stream: NDArray[np.uint64],
    room: int,
    pack: Callable[[Sequence[Problem]], int],
) -> _Mask:
    """Choose the entries to spill so that the other entries can be packed in `room` bytes.

    Args:
        problem: as for `choose`.
        group: as for `choose`.
        stream: stream of each entry, shape (m,), because streams are packed separately.
        room: as for `choose`.
        pack: returns the bytes that several problems need together.

    Returns:
        Whether each entry is spilled, shape (m,).
    """
    parts = [np.flatnonzero(stream == key) for key in distinct(stream)]
    loads = [max_load(problem.part(part)) for part in parts]
    target = room
    while True:
        spilled = np.zeros(len(problem), bool)
        for part, load in zip(parts, loads, strict=True):
            # Streams are not ordered in time, so each stream gets a share of the room.
            share = target * load // max(1, sum(loads))
            spilled[part] = choose(problem.part(part), group[part], share)
        rests = [part[~spilled[part]] for part in parts]
        need = pack([problem.part(rest) for rest in rests if len(rest)])
        if need <= room:
            return spilled
        target = min(target - (need - room), target * 31 // 32) if target > 0 else 0
        target = max(0, target)


def _entries_of(group: NDArray[np.int64]) -> dict[int, list[int]]:
    entries: dict[int, list[int]] = {}
    for entry, one in enumerate(group.tolist()):
        entries.setdefault(one, []).append(entry)
    return entries


class _Load:
    """Live bytes at each tick while blocks are removed and restored."""

    def __init__(self, problem: Problem, size: NDArray[np.int64]) -> None:
        self._problem, self._size = problem, size
        last = problem.period or int(problem.upper.max())
        self._load = np.zeros(last, np.int64)
        for entry in range(len(problem)):
            self.change(entry, 1)

    @property
    def most(self) -> int:
        return int(self._load.max(initial=0))

    def highest(self, entry: int) -> int:
        """Return the largest load during a block's lifetime."""
        return max(int(piece.max(initial=0)) for piece in self._pieces(entry))

    def change(self, entry: int, sign: int) -> None:
        """Remove (-1) or restore (1) a block."""
        for piece in self._pieces(entry):
            piece += sign * int(self._size[entry])

    def _pieces(self, entry: int) -> list[NDArray[np.int64]]:
        lower, upper = int(self._problem.lower[entry]), int(self._problem.upper[entry])
        period = self._problem.period
        if not period or upper <= period:
            return [self._load[lower:upper]]
        return [self._load[lower:], self._load[: upper - period]]
