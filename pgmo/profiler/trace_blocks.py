"""Blocks of a trace: each request with its frees, and the live bytes.

row       0        1        2               3               4
event     ALLOC a  ALLOC b  FREE_REQUESTED  FREE_COMPLETED  ALLOC a
address   64       128      64              64              64
    block     0: requested at 0, freed by the program at 2, reusable from 3     2: never freed
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.trace import Event, Trace

NOT_FREED = -1
"""`freed` or `reusable` of a block without such an event."""


@dataclass(frozen=True, eq=False)
class TraceBlocks:
    """Blocks of a trace in request order, shape (n,); positions are rows of the trace.

    Args:
        before: number of blocks from before the first recorded event. They come first.
        row: row of the block's request.
        size: bytes requested.
        tag: index into the trace's tags, -1 for none.
        iteration: iteration of the request, from 0; -1 before the first mark.
        freed: row at which the program frees the block, or `NOT_FREED`.
        reusable: row from which the allocator may reuse the block's memory, or `NOT_FREED`.
        shared: whether requests were served between `freed` and `reusable`, because another stream
            still used the block.
    """

    before: int
    row: NDArray[np.int64]
    size: NDArray[np.int64]
    tag: NDArray[np.int32]
    iteration: NDArray[np.int64]
    freed: NDArray[np.int64]
    reusable: NDArray[np.int64]
    shared: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def requests(self) -> NDArray[np.int64]:
        """Rows of the recorded requests."""
        return self.row[self.before :]

    @property
    def ends(self) -> NDArray[np.int64]:
        """Row at which each block ends: `reusable` for a shared block, else `freed`."""
        return np.where(self.shared, self.reusable, self.freed)

    def occupied(self, row: int) -> NDArray[np.bool_]:
        """Return which blocks have memory after a row: live blocks, and freed blocks in use."""
        in_use: NDArray[np.bool_] = (self.reusable == NOT_FREED) | (self.reusable > row)
        return in_use & (self.row <= row)


def pair_blocks(trace: Trace) -> TraceBlocks:
    """Pair requests and frees by address; requests of 0 bytes are left out.

    A free is ignored if its block is older than the trace and not among the rows that rebuild the
    initial state. If a trace has `FREE_COMPLETED` events, a `FREE_REQUESTED` alone does not make
    memory reusable: at the end of the trace, another stream still used the memory.
    """
    kinds = (Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED)
    rows = np.flatnonzero(np.isin(trace.kind, kinds) & ((trace.kind != 0) | (trace.size > 0)))
    rows = rows[np.argsort(trace.address[rows], kind="stable")]
    kind, address = trace.kind[rows], trace.address[rows]
    made = np.flatnonzero(kind == Event.ALLOC)
    first = _next_free(kind, address, made, made)
    second = _next_free(kind, address, first, made)
    asked = (first >= 0) & (kind[first] == Event.FREE_REQUESTED)
    done = np.where(asked & (second >= 0) & (kind[second] == Event.FREE_COMPLETED), second, first)
    if (kind == Event.FREE_COMPLETED).any():  # Some tools record only one kind of frees.
        last = np.append(address[1:] != address[:-1], True)
        done = np.where(asked & last[first], -1, done)
    freed = np.where(first >= 0, rows[first], NOT_FREED)
    reusable = np.where(done >= 0, rows[done], NOT_FREED)
    order = np.argsort(rows[made], kind="stable")
    row, freed, reusable = rows[made][order], freed[order], reusable[order]
    served = np.cumsum(trace.kind == Event.ALLOC)
    return TraceBlocks(
        before=int(np.searchsorted(row, trace.before)),
        row=row,
        size=trace.size[row],
        tag=trace.tag[row],
        iteration=np.cumsum(trace.kind == Event.MARK)[row] - 1,
        freed=freed,
        reusable=reusable,
        # A `reusable` of NOT_FREED (-1) indexes the last row.
        shared=(freed != NOT_FREED) & (served[reusable] > served[freed]),
    )


def live_bytes(trace: Trace) -> NDArray[np.int64]:
    """Return the live bytes after each row, shape (m,). A block is live until its `freed`."""
    blocks = trace.blocks
    change = np.zeros(len(trace) + 1, np.int64)
    np.add.at(change, blocks.row, blocks.size)
    np.subtract.at(change, blocks.freed, blocks.size)  # NOT_FREED (-1) indexes the unused end.
    return np.cumsum(change[:-1])


def live_peak(trace: Trace) -> int:
    """Return the peak of live bytes while the trace was recorded."""
    return int(live_bytes(trace)[max(0, trace.before - 1) :].max(initial=0))


def _next_free(
    kind: NDArray[np.int8],
    address: NDArray[np.int64],
    after: NDArray[np.int64],
    made: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the row of the next event at the same address if it is a free, else -1."""
    place = np.minimum(after + 1, len(kind) - 1)
    good = (after >= 0) & (after + 1 < len(kind))
    good &= (address[place] == address[made]) & (kind[place] != Event.ALLOC)
    return np.where(good, place, -1)
