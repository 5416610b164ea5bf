"""Blocks of a trace, with the rows at which each is requested and freed, and its iteration.

rows    ALLOC a   MARK   ALLOC b   FREE a   ALLOC a'   MARK   ...
block      a: born 0, gone 3, iteration -1          a': born 4, gone ALIVE, iteration 0
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.traces.block_ends import NOT_FREED, Blocks, live_bytes, pair_blocks
from pgmo.profiler.trace import Event, Trace

ALIVE = NOT_FREED
"""Value of `gone` for a block that is alive when the trace ends."""


@dataclass(frozen=True, eq=False)
class History:
    """Blocks of a trace in the order of their requests; columns have shape (b,).

    Args:
        trace: source of the blocks.
        born: row of the block's request.
        gone: row at which the program frees the block, or `ALIVE`.
        released: row from which the allocator may reuse the block's memory, or `ALIVE`; later than
            `gone` for a block that other streams still use.
        size: bytes requested.
        tag: index into the trace's tags, -1 for none.
        iteration: iteration of the request, from 0; -1 before the first complete iteration.
        iterations: number of iterations that began.
    """

    trace: Trace
    born: NDArray[np.int64]
    gone: NDArray[np.int64]
    released: NDArray[np.int64]
    size: NDArray[np.int64]
    tag: NDArray[np.int32]
    iteration: NDArray[np.int64]
    iterations: int

    def __len__(self) -> int:
        return len(self.born)

    def taken(self, row: int) -> NDArray[np.bool_]:
        """Return which blocks have memory after a row: live blocks, and those in use by streams."""
        in_use: NDArray[np.bool_] = (self.released == ALIVE) | (self.released > row)
        return in_use & (self.born <= row)

    def live(self) -> NDArray[np.int64]:
        """Return the live bytes after each row of the trace, shape (m,)."""
        blocks = Blocks(self.born, self.gone, self.released, np.zeros(len(self), np.bool_))
        return live_bytes(self.trace, blocks)


def follow(trace: Trace) -> History:
    """Find the end of each block of a trace.

    A free is ignored if its block is unknown: the block was allocated before the trace, and is not
    among the rows that describe the initial state. Requests of zero bytes make no blocks.
    """
    blocks = pair_blocks(trace)
    marks = np.cumsum(trace.kind == Event.MARK)
    return History(
        trace=trace,
        born=blocks.row,
        gone=blocks.let_go,
        released=blocks.gone,
        size=trace.size[blocks.row],
        tag=trace.tag[blocks.row],
        iteration=marks[blocks.row] - 1,
        iterations=int(marks[-1]) if len(marks) else 0,
    )
