"""Pairing of a trace's requests with their frees.

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


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of a trace in request order, shape (n,); positions are rows of the trace.

    Args:
        row: row of the block's `ALLOC`.
        let_go: row where the program freed the block, or `NOT_FREED`.
        gone: row where the block's memory became reusable, or `NOT_FREED`. Later than `let_go` if
            another stream still used the block.
        shared: whether requests were served between `let_go` and `gone`.
    """

    row: NDArray[np.int64]
    let_go: NDArray[np.int64]
    gone: NDArray[np.int64]
    shared: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)


def pair_blocks(trace: Trace) -> Blocks:
    """Pair requests and frees by address; requests of 0 bytes are left out.

    If a trace has `FREE_COMPLETED` events, a `FREE_REQUESTED` alone does not make memory reusable:
    another stream still used the memory at the end of the trace.
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
    let_go = np.where(first >= 0, rows[first], NOT_FREED)
    gone = np.where(done >= 0, rows[done], NOT_FREED)
    order = np.argsort(rows[made], kind="stable")
    row, let_go, gone = rows[made][order], let_go[order], gone[order]
    served = np.cumsum(trace.kind == Event.ALLOC)
    # A `gone` of NOT_FREED (-1) indexes the last row.
    shared = (let_go != NOT_FREED) & (served[gone] > served[let_go])
    return Blocks(row, let_go, gone, shared)


def live_bytes(trace: Trace, blocks: Blocks) -> NDArray[np.int64]:
    """Return the live bytes after each row, shape (m,). A block is live until its `let_go`."""
    change = np.zeros(len(trace) + 1, np.int64)
    size = trace.size[blocks.row]
    np.add.at(change, blocks.row, size)
    np.add.at(change, np.where(blocks.let_go == NOT_FREED, len(trace), blocks.let_go), -size)
    return np.cumsum(change[:-1])


def live_peak(trace: Trace, blocks: Blocks) -> int:
    """Return the peak of live bytes while the trace was recorded."""
    return int(live_bytes(trace, blocks)[max(0, trace.before - 1) :].max(initial=0))


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
