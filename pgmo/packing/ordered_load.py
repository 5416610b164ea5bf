"""Largest peak of live bytes over all executions that the program's streams and events allow.

stream 0   [===A===)  E   [===B===)         work of a stream runs in order; W waits for E
stream 1               [C) W   [===D===)    A and C may live at once, in either order of their
                                            requests; A and D never do

A device may execute submitted work in any order that streams and events allow. If some work has
begun, all its predecessors have begun. Two blocks can be alive at once if neither block's end
precedes the other's beginning. If all pairs of a set of blocks can be alive at once, the whole set
can (Garg and Waldecker 1994, weak conjunctive predicates).

So the largest sum of live bytes is the weight of the heaviest set of blocks without an ordered
pair. No plan that passes memory between streams only in this order can be smaller. (If each block
is one page, this bound is reached: Dilworth 1950.) A minimum cut finds the set as a closure of
maximum weight (Picard 1976). The closure's elements are stretches of a stream between two *stops*.
At such a row of the `Order`, the stream waits, or has done work for which another stream waits.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.profiler.ordering.clocks import edges, used_until
from pgmo.profiler.ordering.order import Order

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile

_TURNS = 3
"""Number of successive iterations to consider: streams may be in different iterations."""

# Capacity of edges that no minimum cut contains.
_UNCUTTABLE = 2**60


def ordered_load(blocks: "Profile | Plan", alignment: int = 1) -> int | None:
    """Return the largest sum of planned bytes that streams and events allow to be alive at once.

    The result is at most the sum of the max loads of all streams.

    Args:
        blocks: blocks of an iteration; blocks without a slot do not count.
        alignment: alignment in bytes, to which sizes are rounded up.

    Returns:
        Bytes; None if the order of the streams is unknown.

    Example:
        >>> from pgmo.profiler.profile import Profile
        >>> order = Order(tick=[1, 1], kind=[4, 5], stream=[0, 7], target=[-1, 0], back=[0, 0])
        >>> columns = dict(size=[4, 2], start=[0, 1], end=[1, 2], stream=[0, 7], ticks=2)
        >>> profile = Profile.from_columns(**columns)
        >>> ordered_load(Profile.from_columns(**columns, order=order)), profile.max_load()
        (6, 4)
    """
    order = blocks.order
    if order is None:
        return None
    streams = np.unique(blocks.stream)
    walk = _StreamLoads(blocks, order, alignment)
    stops = _stops(order, streams)
    number: dict[tuple[int, int], int] = {}  # Nodes, by stream and number of passed stops.
    weight: list[int] = []
    base = 0
    for stream, rows in stops.items():
        peaks = walk.peaks(stream, rows)
        base += int(peaks[0])
        for at, change in enumerate(np.diff(peaks).tolist(), 1):
            number[stream, at] = len(weight)
            weight.append(change)
    tail, head = _requirements(order, streams, stops, number)
    return base + _heaviest_closure(np.array(weight, np.int64), tail, head)


class _StreamLoads:
    """Live bytes of each stream at each request and row of several iterations."""

    def __init__(self, blocks: "Profile | Plan", order: Order, alignment: int) -> None:
        unplanned = (blocks.end < 0) | blocks.shared
        self._blocks, self._rows = blocks, len(order)
        # Places number the requests and the rows of an iteration in one sequence.
        self._length = blocks.ticks + len(order)
        row_place = np.arange(len(order)) + order.tick
        self._row_place = row_place
        ticks = np.arange(blocks.ticks)
        before = np.searchsorted(order.tick, ticks, side="right")
        request_place = ticks + before
        used = used_until(
            order, start=blocks.start, end=blocks.end, stream=blocks.stream, ticks=blocks.ticks
        )
        turns, rows = np.divmod(used, max(1, len(order)))
        by_row = np.append(row_place, self._length)[rows] + turns * self._length
        turns, within = np.divmod(np.maximum(blocks.end, 0), max(1, blocks.ticks))
        by_tick = np.append(request_place, 0)[within] + turns * self._length
        self._begin = request_place[blocks.start][~unplanned]
        self._end = np.minimum(by_row, by_tick)[~unplanned]
        self._size = (-(-blocks.size // alignment) * alignment)[~unplanned]
        self._stream = blocks.stream[~unplanned]

    def peaks(self, stream: int, rows: list[int]) -> NDArray[np.int64]:
        """Return a stream's peak bytes before, between and after rows, shape (len(rows) + 1,)."""
        mine = self._stream == stream
        begin, end, size = self._begin[mine], self._end[mine], self._size[mine]
        whole = _TURNS * self._length
        change = np.zeros(whole + 1, np.int64)
        for turn in range(-2, _TURNS):
            low = np.clip(begin + turn * self._length, 0, whole)
            high = np.clip(end + turn * self._length, 0, whole)
            np.add.at(change, low, size)
            np.add.at(change, high, -size)
        live = np.cumsum(change[:-1])
        turns, row = np.divmod(np.array(rows, np.int64), max(1, self._rows))
        place = self._row_place[row] + turns * self._length if len(rows) else row
        edges_ = [0, *(place + 1).tolist(), whole]
        found = [int(live[low:high].max(initial=0)) for low, high in pairwise(edges_)]
        # The place of a stop belongs to the stretch before the stop.
        return np.array(found, np.int64)


def _stops(order: Order, streams: NDArray[np.uint64]) -> dict[int, list[int]]:
    """Return the stops of each stream in all `_TURNS` iterations, as row numbers."""
    rows: dict[int, set[int]] = {}
    for edge in edges(order, streams):
        rows.setdefault(edge.stream, set()).add(edge.at)
        rows.setdefault(edge.other, set()).add(edge.before)
    for stream in streams.tolist():
        rows.setdefault(stream, set())
    length = len(order)
    return {
        stream: [turn * length + row for turn in range(_TURNS) for row in sorted(some)]
        for stream, some in rows.items()
    }


def _requirements(
    order: Order,
    streams: NDArray[np.uint64],
    stops: dict[int, list[int]],
    number: dict[tuple[int, int], int],
) -> tuple[list[int], list[int]]:
    """Return all pairs of a node and a node that it requires, as two lists.

    A node requires the previous stop of its stream, and the stops for which the stream waits.
    """
    place = {(stream, row): at for stream, rows in stops.items() for at, row in enumerate(rows, 1)}
    tail, head = [], []
    for (stream, at), node in number.items():
        if at > 1:
            tail.append(node)
            head.append(number[stream, at - 1])
    for turn in range(_TURNS):
        for edge in edges(order, streams):
            since = edge.before + (turn - edge.back) * len(order)
            if since < 0:
                continue  # The awaited work belongs to a time before the first iteration.
            row = edge.at + turn * len(order)
            tail.append(number[edge.stream, place[edge.stream, row]])
            head.append(number[edge.other, place[edge.other, since]])
    return tail, head


def _heaviest_closure(weight: NDArray[np.int64], tail: list[int], head: list[int]) -> int:
    nodes = len(weight)
    source, sink = nodes, nodes + 1
    gain, loss = np.flatnonzero(weight > 0), np.flatnonzero(weight < 0)
    tails = np.concatenate((np.full(len(gain), source), loss, np.array(tail, np.int64)))
    heads = np.concatenate((gain, np.full(len(loss), sink), np.array(head, np.int64)))
    capacity = np.concatenate((weight[gain], -weight[loss], np.full(len(tail), _UNCUTTABLE)))
    cut, _ = _core.min_cut(
        nodes + 2,
        tails.astype(np.int32),
        heads.astype(np.int32),
        capacity.astype(np.int64),
        source,
        sink,
    )
    return int(weight[gain].sum()) - int(cut)
