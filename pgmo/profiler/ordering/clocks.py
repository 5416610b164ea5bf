"""Vector clocks: which work of other streams is certainly done before a request.

stream 0    F0 ──F1──E────────F2──────▶
                      ╲
stream 1    ───────────W──R5──────────▶     R5 comes after F0 and F1, but not provably after F2

The work of a stream runs in order. An event covers all earlier work of its stream, and the work
that its stream has waited for. A stream that waits for the event comes after all this work. Source:
vector clocks (Fidge 1988, Mattern 1989), with a component for each stream. An iteration repeats, so
its rows are processed several times in succession.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.ordering.order import (
    DEVICE_DONE,
    EVENT_DONE,
    FREE,
    RECORD,
    STREAM_DONE,
    UNKNOWN,
    WAIT,
    Order,
)

NEVER = np.iinfo(np.int64).max
"""Tick that means never. It is greater than the tick of any request."""

_TURNS = 6
"""Number of processed iterations. A block may live for two iterations, and a stream may wait for
the block's use even later."""


@dataclass(frozen=True)
class Edge:
    """Dependency: from row `at` on, `stream` comes after all work of `other` before row `before`.

    Rows are those of an order. Row `before` belongs to an iteration `back` iterations earlier.
    """

    stream: int
    at: int
    other: int
    before: int
    back: int


def edges(order: Order, streams: NDArray[np.uint64]) -> list[Edge]:
    """Return all dependencies with a known target, in the order of the rows.

    Streams of the order are included, also streams without requests.
    """
    all_streams = _all_streams(order, streams)
    found = []
    for at in np.flatnonzero(order.kind >= WAIT).tolist():
        kind, stream = int(order.kind[at]), int(order.stream[at])
        if kind in (WAIT, EVENT_DONE):
            target = int(order.target[at])
            if target == UNKNOWN:
                continue
            done = [(int(order.stream[target]), target, int(order.back[at]))]
        elif kind == STREAM_DONE:
            done = [(stream, at, 0)]
        else:
            done = [(other, at, 0) for other in all_streams]
        waiting = [stream] if kind == WAIT else all_streams
        found += [
            Edge(one, at, other, before, back)
            for one in waiting
            for other, before, back in done
            if one != other
        ]
    return found


def behind(
    order: Order,
    *,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    stream: NDArray[np.uint64],
    ticks: int,
    streams: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """Return the tick from which each stream's work comes after each block's last use.

    A request at that tick or later can reuse the memory without another event. Ticks count from the
    beginning of the iteration that requests the block, and continue in the next iterations. For the
    block's own stream, the tick is the block's end.

    Args:
        order: order of the iteration.
        start: tick of each block's request, shape (n,).
        end: first tick at which each block is gone, shape (n,); -1 for never.
        stream: stream that each block belongs to, shape (n,).
        ticks: requests per iteration.
        streams: streams that have requests, shape (k,).

    Returns:
        Ticks, shape (n, k); `NEVER` where nothing orders the stream after the block's use, and for
        blocks that are never freed.

    Example:
        >>> order = Order(tick=[1, 1], kind=[4, 5], stream=[0, 7], target=[-1, 0], back=[0, 0])
        >>> blocks = dict(start=np.array([0]), end=np.array([1]), stream=np.array([0], np.uint64))
        >>> behind(order, **blocks, ticks=2, streams=np.array([0, 7], np.uint64)).tolist()
        [[1, 1]]
    """
    freed = used_until(order, start=start, end=end, stream=stream, ticks=ticks)
    table = np.full((len(end), len(streams)), NEVER)
    steps = _steps(order, streams, ticks)
    for column, waiting in enumerate(streams.tolist()):
        for owner in streams.tolist():
            mine = (stream == owner) & (end >= 0)
            if owner == waiting:
                table[mine, column] = end[mine]
                continue
            since, before = steps.get((waiting, owner), (np.zeros(0, int), np.zeros(0, int)))
            # Place the block in the second simulated iteration, whose clocks know the first.
            place = np.searchsorted(before, freed[mine] + len(order), side="left")
            late = np.append(since - ticks, NEVER)[place]
            table[mine, column] = np.maximum(late, end[mine])
    return table


def freed_at(order: Order, end: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """Return the number of rows before each block's free, shape (n,).

    Rows count from the first row of the block's iteration. If the order has no free of the block at
    tick `end`, all rows before request `end` count.
    """
    turns, within = np.divmod(np.maximum(end - 1, 0), max(1, ticks))
    place = turns * len(order) + np.searchsorted(order.tick, within + 1, side="right")
    rows = np.flatnonzero(order.kind == FREE)
    target, back = order.target[rows], order.back[rows]
    seen = order.tick[rows] + back * ticks == end[target]
    place[target[seen]] = (rows + back * len(order))[seen]
    return place


def used_until(
    order: Order,
    *,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    stream: NDArray[np.uint64],
    ticks: int,
) -> NDArray[np.int64]:
    """Return a row between each block's last use and its free, counted like `freed_at`.

    A program may free a block long after its stream's last work. Suppose that an event on the
    stream, or a wait for the stream, precedes the free. If the stream has no request and no wait in
    between, the event or wait is assumed to cover the block's last use, and its row is returned.
    """
    freed = freed_at(order, end, ticks)
    length = max(1, len(order))
    place = np.arange(len(order)) + order.tick  # Position among rows and requests.
    whole = len(order) + ticks
    requested = start + np.searchsorted(order.tick, start, side="right")
    turns, within = np.divmod(freed, length)
    at = np.append(place, whole)[within] + turns * whole
    last, rest = np.divmod(np.maximum(end, 0), max(1, ticks))
    table = np.append(np.arange(ticks) + np.searchsorted(order.tick, np.arange(ticks), "right"), 0)
    at = np.minimum(at, table[rest] + last * whole)
    for one in np.unique(stream).tolist():
        mine = np.flatnonzero(stream == one)
        waits = place[(order.kind == WAIT) & (order.stream == one)]
        given = np.sort(np.concatenate((requested[mine], waits)))
        relevant = np.isin(order.kind, (RECORD, STREAM_DONE)) & (order.stream == one)
        events = np.flatnonzero(relevant | (order.kind == DEVICE_DONE))
        if not events.size or not given.size:
            continue
        given = np.concatenate([given + turn * whole for turn in range(-1, 3)])
        since = given[np.searchsorted(given, at[mine], side="left") - 1]
        rows = np.concatenate([events + turn * len(order) for turn in range(-1, 3)])
        places = np.concatenate([place[events] + turn * whole for turn in range(-1, 3)])
        first = np.minimum(np.searchsorted(places, since, side="right"), len(rows) - 1)
        earlier = (places[first] > since) & (rows[first] < freed[mine])
        freed[mine[earlier]] = rows[first[earlier]]
    return freed


def _steps(
    order: Order, streams: NDArray[np.uint64], ticks: int
) -> dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return for each pair of streams which rows of the second precede later work of the first.

    The first array holds the ticks at which more rows are done. The second array holds the last row
    of the second stream that is done from each of these ticks on.
    """
    number = {one: at for at, one in enumerate(_all_streams(order, streams))}
    # For each pair, the last row of the second stream that precedes later work of the first stream.
    known = np.full((len(number), len(number)), -1)
    at_event: dict[int, NDArray[np.int64]] = {}
    steps: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    by_row: dict[int, list[Edge]] = {}
    for edge in edges(order, streams):
        by_row.setdefault(edge.at, []).append(edge)
    rows = sorted({*by_row, *np.flatnonzero(order.kind == RECORD).tolist()})
    wanted = {number[one]: one for one in streams.tolist()}
    for turn in range(_TURNS):
        for row in rows:
            now = turn * len(order) + row
            if order.kind[row] == RECORD:
                one = number[int(order.stream[row])]
                at_event[now] = known[one].copy()
                at_event[now][one] = now
            before = known.copy()
            for edge in by_row.get(row, ()):
                one, other = number[edge.stream], number[edge.other]
                since = now - row + edge.before - edge.back * len(order)
                if since == now:  # The program itself has waited for all submitted work.
                    clock = before[other].copy()
                    clock[other] = now
                elif since in at_event:
                    clock = at_event[since]
                else:
                    continue
                np.maximum(known[one], clock, out=known[one])
            tick = turn * ticks + int(order.tick[row])
            for one, other in zip(*np.nonzero(known > before), strict=True):
                if int(one) not in wanted or int(other) not in wanted or one == other:
                    continue
                since_list, done = steps.setdefault(
                    (wanted[int(one)], wanted[int(other)]), ([], [])
                )
                since_list.append(tick)
                done.append(int(known[one, other]))
    return {pair: (np.array(since), np.array(done)) for pair, (since, done) in steps.items()}


def _all_streams(order: Order, streams: NDArray[np.uint64]) -> list[int]:
    named = order.stream[np.isin(order.kind, (RECORD, WAIT, STREAM_DONE))]
    return sorted({*named.tolist(), *streams.tolist()})
