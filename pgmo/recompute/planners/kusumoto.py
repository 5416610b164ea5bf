"""Kusumoto et al. 2019, "A Graph Theoretic Framework of Recomputation Algorithms".

arXiv 1905.11722. A choice is an increasing sequence of lower sets (`lower_sets.py`):
L1 < ... < Lk = V. The values of a block Vi = Li - Li-1 are dropped, except the values of Ui, the
boundaries of L1 ... Li. With T for the cost of operations, and M for the bytes of values:

    overhead  T = sum of T(Vi - boundary(Li))
    peak      M = max of M(Ui-1) + 2 M(Vi) + M(next(Li)) + M(read by next(Li), outside Li)

The dynamic program finds the smallest number of cached bytes for each lower set and overhead. The
formula of the peak counts a gradient for each value. The peak of `schedule.simulate` is usually
lower, because a schedule knows which values the backward pass reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pgmo.recompute.planners.lower_sets import Dag


@dataclass(frozen=True)
class Sequence:
    """Increasing sequence of lower sets.

    Args:
        blocks: operations of each block, ascending.
        cached: operations on a boundary, whose values are kept.
    """

    blocks: tuple[tuple[int, ...], ...]
    cached: frozenset[int]

    def dropped(self, *, last: bool = True) -> frozenset[int]:
        """Return the operations that are not cached, with the last block only if `last`."""
        blocks = self.blocks if last else self.blocks[:-1]
        return frozenset(one for block in blocks for one in block) - self.cached


@dataclass(frozen=True, eq=False)
class _Row:
    """Blocks that end at one lower set, one for each of p subsets. Arrays have the shape (p,)."""

    before: NDArray[np.int64]  # Numbers of the subsets.
    need: NDArray[np.int64]  # Peak of the block in bytes, without bytes that are cached before it.
    cached: NDArray[np.int64]  # Bytes that the block caches.
    units: NDArray[np.int64]  # Overhead of the block in units of the time axis.


class DynamicProgram:
    """Dynamic program over one family of lower sets.

    Args:
        dag: the forward pass.
        members: k sets of n nodes, shape (k, n), from the empty set to all nodes, by number of
            members (`lower_sets.ancestor_sets`).
        time_units: maximum number of units of the time axis. Integer costs with at most this sum
            are not rounded.

    Example:
        >>> from pgmo.recompute.planners.lower_sets import ancestor_sets
        >>> chain = Dag(((), *((i,) for i in range(7))), np.full(8, 10), np.ones(8))
        >>> program = DynamicProgram(chain, ancestor_sets(chain), time_units=8)
        >>> program.least_budget()
        70
        >>> program.solve(70)[0].blocks
        ((0,), (1, 2), (3, 4), (5,), (6,), (7,))
    """

    def __init__(self, dag: Dag, members: NDArray[np.bool_], time_units: int) -> None:
        self._dag = dag
        self._members = members
        self._units = _on_axis(dag.cost, time_units)
        self._boundary = dag.boundary(members)
        self._rows = list(self._make_rows())

    def least_budget(self, tolerance: float = 1e-4) -> int:
        """Return the formula's smallest peak in bytes, with a relative error up to `tolerance`."""
        low, high = -1, 2 * int(self._dag.size.sum())
        while high - low > max(1, tolerance * high):
            middle = (low + high) // 2
            if self._feasible(middle):
                high = middle
            else:
                low = middle
        return high

    def solve(self, budget: int) -> tuple[Sequence, Sequence]:
        """Return the time-centric and the memory-centric sequence within a budget (section 4.4).

        The time-centric sequence has the smallest overhead. The memory-centric sequence has the
        largest overhead, and coarse blocks, for which the formula overestimates the peak most.

        Args:
            budget: bytes, compared with the formula's peak; at least `least_budget()`.
        """
        table = self._fill(budget)
        reached = np.flatnonzero(np.isfinite(table[-1]))
        first, last = int(reached[0]), int(reached[-1])
        return self._trace(table, budget, first), self._trace(table, budget, last)

    def _make_rows(self) -> Iterator[_Row]:
        dag, members = self._dag, self._members
        size, units = dag.size, self._units
        whole_size, whole_units = members @ size, members @ units
        above = dag.next_up(members)
        load = above @ size + (dag.read_by(above) & ~members) @ size
        packed = np.packbits(members, axis=1)
        for row in range(len(members)):
            outside = (packed[:row] & ~packed[row]).any(axis=1)
            before = np.flatnonzero(~outside)
            edge = np.flatnonzero(self._boundary[row])
            # Whether each node of the boundary is outside of each subset.
            fresh = ~members[np.ix_(before, edge)]
            yield _Row(
                before,
                2 * (whole_size[row] - whole_size[before]) + load[row],
                fresh @ size[edge],
                whole_units[row] - whole_units[before] - fresh @ units[edge],
            )

    def _feasible(self, budget: int) -> bool:
        least = np.full(len(self._rows), np.inf)
        least[0] = 0
        for index, row in enumerate(self._rows[1:], 1):
            cached = least[row.before]
            total = np.where(cached + row.need <= budget, cached + row.cached, np.inf)
            least[index] = total.min()
        return bool(np.isfinite(least[-1]))

    def _fill(self, budget: int) -> NDArray[np.float64]:
        """Return the fewest cached bytes, or infinity, for each lower set and overhead in units."""
        width = int(self._units.sum()) + 1
        # Each row has `width` infinities on the left, for shifts to the right.
        flat = np.full(len(self._rows) * 2 * width, np.inf)
        padded = flat.reshape(len(self._rows), 2 * width)
        table = padded[:, width:]
        table[0, 0] = 0
        least = np.full(len(self._rows), np.inf)
        least[0] = 0
        latest = np.zeros(len(self._rows), np.int64)
        for index, row in enumerate(self._rows[1:], 1):
            usable = np.flatnonzero(least[row.before] + row.need <= budget)
            if not len(usable):
                continue
            before, shift = row.before[usable], row.units[usable]
            reach = int((latest[before] + shift).max()) + 1
            windows = sliding_window_view(flat, reach)
            now = windows[before * 2 * width + width - shift]
            now[now > (budget - row.need[usable])[:, None]] = np.inf
            now += row.cached[usable][:, None]
            table[index, :reach] = now.min(axis=0)
            least[index] = table[index, :reach].min()
            latest[index] = np.flatnonzero(np.isfinite(table[index, :reach]))[-1]
        return table

    def _trace(self, table: NDArray[np.float64], budget: int, time: int) -> Sequence:
        """Return the sequence to the whole graph with an overhead of `time` units."""
        path = [len(self._rows) - 1]
        while path[-1] != 0:
            row = self._rows[path[-1]]
            then = time - row.units
            cached = np.where(then >= 0, table[row.before, np.maximum(then, 0)], np.inf)
            fits = (cached + row.need <= budget) & (cached + row.cached == table[path[-1], time])
            step = int(np.flatnonzero(fits)[0])
            time = int(then[step])
            path.append(int(row.before[step]))
        path.reverse()
        return self._sequence(path)

    def _sequence(self, path: list[int]) -> Sequence:
        blocks = [
            tuple(np.flatnonzero(self._members[after] & ~self._members[before]).tolist())
            for before, after in pairwise(path)
        ]
        edge = np.flatnonzero(self._boundary[path].any(axis=0))
        return Sequence(tuple(blocks), frozenset(edge.tolist()))


def _on_axis(cost: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    rounded: NDArray[np.int64] = np.rint(cost).astype(np.int64)
    if not np.array_equal(rounded, cost) or rounded.sum() > most:
        rounded = np.rint(cost / cost.sum() * most).astype(np.int64)
    return rounded
