"""The blocks of a trace: when each was requested and let go of, and in which iteration.

rows    ALLOC a   MARK   ALLOC b   FREE a   ALLOC a'   MARK   ...
block      a: born 0, gone 3, iteration -1          a': born 4, gone NEVER, iteration 0
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.traces.block_ends import NOT_FREED, Blocks, live_bytes, pair_blocks
from pgmo.profiler.trace import Event, Trace

ALIVE = NOT_FREED
"""`gone` of a block that is alive when the trace ends."""


@dataclass(frozen=True, eq=False)
class History:
    """The blocks of a trace in the order of their requests; columns have shape (b,).

    Args:
        trace: what it was made from.
        born: row of the trace that is the block's request.
        gone: row at which the program lets go of it, or `ALIVE`.
        released: row from which the allocator may use its place again, or `ALIVE`; later than
            `gone` for a block that other streams still use.
        size: bytes requested.
        tag: index into the trace's tags, -1 for none.
        iteration: in which it was requested: 0 is the first that was seen from its beginning, -1
            is all before it.
        iterations: that were begun.
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

    def live(self) -> NDArray[np.int64]:
        """Bytes alive after each row of the trace, shape (m,)."""
        blocks = Blocks(self.born, self.gone, self.released, np.zeros(len(self), np.bool_))
        return live_bytes(self.trace, blocks)


def follow(trace: Trace) -> History:
    """Finds out when each block of a trace ends.

    See `pgmo.profiler.iterations.traces.block_ends` for which free ends which block; one of a block
    that was allocated before the trace began, and is not among the rows that rebuild the beginning,
    is passed over. Requests of no bytes make no blocks.

    Args:
        trace: the events.
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
