"""Reconstruction of the state before the first recorded event.

    recorded   ... F0  A1  A2  F2 ...         final segments:  1 and 3 are alive
    earlier    0 existed (it is freed), 3 existed (it is alive, and no event allocates it)

Most traces need the reconstruction, because a memory history has limited length and may begin at
any time. Segments, and pages of expandable segments, are reconstructed in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.trace import Event, check_ranges

_BLOCK = (Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED)


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of an unfinished trace, shape (m,). `origin`: number of a stack; negative: none."""

    kind: NDArray[np.int8]
    address: NDArray[np.int64]
    size: NDArray[np.int64]
    stream: NDArray[np.uint64]
    origin: NDArray[np.int32]
    time: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: NDArray[np.int64]) -> "Rows":
        """Return the chosen rows in the given order."""
        return Rows(*(column[rows] for column in vars(self).values()))

    def joined(self, other: "Rows") -> "Rows":
        """Return these rows followed by the rows of `other`."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Rows(*(np.concatenate(pair) for pair in pairs))

    @classmethod
    def make(cls, rows: list[tuple[int, int, int, int, int]]) -> "Rows":
        """Make rows from (kind, address, size, stream, origin) tuples, at time 0."""
        columns = list(zip(*rows, strict=True)) or [()] * 5
        return cls(
            kind=np.array(columns[0], np.int8),
            address=np.array(columns[1], np.int64),
            size=np.array(columns[2], np.int64),
            stream=np.array(columns[3], np.uint64),
            origin=np.array(columns[4], np.int32),
            time=np.zeros(len(rows), np.int64),
        )


def complete(
    seen: Rows, segments: Rows, pages: Rows, blocks: Rows
) -> tuple[Rows, int, dict[str, str]]:
    """Prepend the rows that rebuild the initial state, and repair gaps in the events.

    Raises ProfileError when an address, size or time is out of range.

    Args:
        seen: the events, in order.
        segments: non-expandable segments at the end, as `SEGMENT_ALLOC` rows.
        pages: mapped ranges of expandable segments at the end, as `SEGMENT_MAP` rows.
        blocks: blocks alive at the end, as `ALLOC` rows.

    Returns:
        The rows, the number of rows that precede the events, and notes about inconsistencies.
    """
    notes: dict[str, str] = {}
    for rows in (seen, segments, pages, blocks):
        check_ranges(rows.address, rows.size, rows.time)
    seen, stray, gaps = _repair(seen)
    if stray:
        notes["stray frees"] = f"{stray} of blocks whose allocation is missing, left out"
    if gaps:
        notes["missing frees"] = f"{gaps} added where an address was given out again"
    old_segments, _ = _earlier(seen, (Event.SEGMENT_ALLOC, Event.SEGMENT_FREE), segments)
    old_blocks, late = _earlier(seen, _BLOCK, blocks)
    if late:
        notes["later blocks"] = f"{late} left out, because no event shows their allocation"
    before = old_segments.joined(_earlier_pages(seen, pages)).joined(old_blocks)
    return before.joined(seen), len(before), notes


def with_marks(seen: Rows, marks: Sequence[int]) -> Rows:
    """Insert a `MARK` row before each of the given rows; row `len(seen)` is the end."""
    if not len(marks) or not len(seen):
        return seen
    at = np.array(marks, np.int64)
    made = Rows.make([(Event.MARK, 0, 0, 0, -1)] * len(at))
    made = replace(made, time=seen.time[np.minimum(at, len(seen) - 1)])
    place = np.concatenate([np.arange(len(seen)), at - 0.5])
    return seen.joined(made).take(np.argsort(place, kind="stable"))


def _sorted_rows(seen: Rows, kinds: tuple[Event, ...]) -> NDArray[np.int64]:
    """Return the row numbers of some kinds, sorted by address and then in recorded order."""
    rows = np.flatnonzero(np.isin(seen.kind, kinds))
    return rows[np.argsort(seen.address[rows], kind="stable")]


def _is_first_of_address(address: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each row is the first row of its address. `address` must be sorted."""
    return np.concatenate([[True], address[1:] != address[:-1]])[: len(address)]


def _repair(seen: Rows) -> tuple[Rows, int, int]:
    """Drop frees without a block, add missing frees at reused addresses, and count both."""
    rows = _sorted_rows(seen, _BLOCK)
    kind = seen.kind[rows]
    first = _is_first_of_address(seen.address[rows])
    previous = np.where(first, -1, np.roll(kind, 1))
    completed = previous == Event.FREE_COMPLETED
    stray = rows[
        ((kind == Event.FREE_REQUESTED) & (completed | (previous == Event.FREE_REQUESTED)))
        | ((kind == Event.FREE_COMPLETED) & completed)
    ]
    again = (kind == Event.ALLOC) & (previous == Event.ALLOC)
    victims = np.roll(rows, 1)[again]
    if not len(stray) + len(victims):
        return seen, 0, 0
    missing = seen.take(victims)
    missing = replace(missing, origin=np.full(len(missing), -1, np.int32))
    asked = replace(missing, kind=np.full(len(missing), Event.FREE_REQUESTED, np.int8))
    done = replace(missing, kind=np.full(len(missing), Event.FREE_COMPLETED, np.int8))
    place = np.concatenate([np.arange(len(seen)), rows[again] - 0.5, rows[again] - 0.4])
    keep = np.ones(len(place), np.bool_)
    keep[stray] = False
    order = np.argsort(place, kind="stable")
    repaired = seen.joined(asked).joined(done).take(order[keep[order]])
    return repaired, len(stray), len(victims)


def _earlier(seen: Rows, kinds: tuple[Event, ...], final: Rows) -> tuple[Rows, int]:
    """Return the ranges that existed at the beginning, and the number of unexplained final ranges.

    A range existed if the first event at its address frees it, or if it is final and overlaps no
    event. A final range is unexplained if it neither existed at the beginning nor was created.
    """
    made_by = kinds[0]
    rows = _sorted_rows(seen, kinds)
    address = seen.address[rows]
    first = _is_first_of_address(address)
    last = np.concatenate([first[1:], [True]])[: len(rows)]
    orphans = rows[first & (seen.kind[rows] != made_by)]
    open_at_end = address[last & (seen.kind[rows] != kinds[-1])]
    made = np.isin(final.address, open_at_end)
    # A final range that overlaps the range of any event cannot have existed all the time.
    kept = ~made & ~_overlaps(final, seen.take(rows))
    old = replace(
        seen.take(orphans),
        kind=np.full(len(orphans), made_by, np.int8),
        origin=np.full(len(orphans), -1, np.int32),
        time=np.zeros(len(orphans), np.int64),
    ).joined(final.take(np.flatnonzero(kept)))
    old = old.take(np.argsort(old.address, kind="stable"))
    return old, int(np.count_nonzero(~kept & ~made))


def _overlaps(final: Rows, touched: Rows) -> NDArray[np.bool_]:
    """Return whether each final range overlaps a touched range."""
    if not len(touched):
        return np.zeros(len(final), np.bool_)
    order = np.argsort(touched.address, kind="stable")
    low = touched.address[order]
    high = np.maximum.accumulate(low + touched.size[order])
    before = np.searchsorted(low, final.address + np.maximum(final.size, 1)) - 1
    result: NDArray[np.bool_] = (before >= 0) & (high[before] > final.address)
    return result


def _earlier_pages(seen: Rows, final: Rows) -> Rows:
    """Return the ranges of expandable segments that were mapped at the beginning.

    A page was mapped if its first event unmaps it, or if it has no event and is mapped at the end.
    """
    events = seen.take(np.flatnonzero(np.isin(seen.kind, (Event.SEGMENT_MAP, Event.SEGMENT_UNMAP))))
    if not len(events) + len(final):
        return Rows.make([])
    everything = events.joined(final)
    edges = np.unique(np.concatenate([everything.address, everything.address + everything.size]))
    unknown, mapped, gone = -1, 1, 0
    state = np.full(len(edges), unknown, np.int8)  # From each edge to the next one.
    stream = np.zeros(len(edges), np.uint64)
    lows = np.searchsorted(edges, everything.address)
    highs = np.searchsorted(edges, everything.address + everything.size)
    was_there = everything.kind == Event.SEGMENT_UNMAP
    was_there[len(events) :] = True
    # Only the first event of a range matters. `following` links each edge to the next edge whose
    # state is unknown, so that no range is visited twice.
    following = list(range(len(edges) + 1))
    for row, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        at = _chain_end(following, low)
        while at < high:
            state[at] = mapped if was_there[row] else gone
            stream[at] = everything.stream[row]
            following[at] = at + 1
            at = _chain_end(following, at)
    begins = np.isin(edges, final.address)
    ranges: list[list[int]] = []
    for at in np.flatnonzero(state == mapped).tolist():
        low, high, own = int(edges[at]), int(edges[at + 1]), int(stream[at])
        if ranges and ranges[-1][1] == low and ranges[-1][2] == own and not begins[at]:
            ranges[-1][1] = high
        else:
            ranges.append([low, high, own])
    return Rows.make([(Event.SEGMENT_MAP, low, high - low, s, -1) for low, high, s in ranges])


def _chain_end(following: list[int], at: int) -> int:
    """Return the end of a chain of links, with path halving."""
    while following[at] != at:
        following[at] = following[following[at]]
        at = following[at]
    return at
