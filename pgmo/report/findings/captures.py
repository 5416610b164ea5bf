"""Blocks of private pools, and the captures of CUDA graphs that request and free them.

    rows      A  A' f(A) A"  |  B  |  f(A') A2 f(A") f(A2)      A: blocks of one private pool
    capture   `----- 0 ----'    -    `------- 1 -------'       B: a block of another pool
    block     A, A2: temporary      A": carried from capture 0 to 1      A': freed by no capture

f(A) is the free of A. PyTorch does not record the beginning of a capture. During a capture, all
requests go to the capture's pool, and no memory returns to the driver. So consecutive requests of
one pool count as one capture. Frees that directly follow these requests belong to the capture.
Warm-up iterations of `torch.compile` in a private pool count as captures, too.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import CUDA_ALIGNMENT
from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import NOT_FREED

_GIVES = (Event.SEGMENT_FREE, Event.SEGMENT_UNMAP)

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PoolBlocks:
    """Blocks of private pools in request order, shape (n,), and the pools, shape (p,).

    Args:
        pool: index of the block's pool.
        address: address of the block.
        size: bytes, rounded up as PyTorch's allocator does.
        begin: row of the request.
        end: row of the free; the trace's number of rows if no event frees the block.
        born: number of the capture that requests the block.
        freed: number of the capture of the same pool that frees the block, -1 for none.
        is_alive: whether no event frees the block.
        recorded: whether all requests of the pool were recorded.
        is_mempool: whether the pool has blocks of the default stream, on which no graph is
            captured.
    """

    pool: Rows
    address: Rows
    size: Rows
    begin: Rows
    end: Rows
    born: Rows
    freed: Rows
    is_alive: NDArray[np.bool_]
    recorded: NDArray[np.bool_]
    is_mempool: NDArray[np.bool_]


def blocks_of_pools(trace: Trace, pools: tuple[tuple[int, int], ...]) -> PoolBlocks:
    """Return the blocks in segments that belong to private pools when the trace ends."""
    blocks = trace.blocks
    pool, recorded = _owners(trace, pools)
    born, freed = _captures(trace, pool)
    rows = np.flatnonzero(pool >= 0)
    begin = blocks.row[rows]
    is_alive = blocks.freed[rows] == NOT_FREED
    is_mempool = np.zeros(len(pools), np.bool_)
    is_mempool[pool[rows][trace.stream[begin] == 0]] = True
    return PoolBlocks(
        pool=pool[rows],
        address=trace.address[begin],
        size=-(-blocks.size[rows] // CUDA_ALIGNMENT) * CUDA_ALIGNMENT,
        begin=begin,
        end=np.where(is_alive, len(trace), blocks.freed[rows]),
        born=born[rows],
        freed=freed[rows],
        is_alive=is_alive,
        recorded=recorded,
        is_mempool=is_mempool,
    )


def _owners(trace: Trace, pools: tuple[tuple[int, int], ...]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return each block's pool, -1 for none, and whether each pool was recorded from its start."""
    private = sorted(trace.private, key=lambda one: one.address)
    number = {pool: index for index, pool in enumerate(pools)}
    owner = np.array([number[one.pool] for one in private], np.int64)
    low = np.array([one.address for one in private], np.int64)
    high = low + np.array([one.size for one in private], np.int64)

    def place_of(rows: Rows) -> Rows:
        """Return the private segment in which the address of each row lies, -1 for none."""
        place = np.searchsorted(low, trace.address[rows], "right") - 1
        return np.where((place >= 0) & (trace.address[rows] < high[place]), place, -1)

    # Last row that allocates or returns a segment. Earlier blocks there lay in other segments.
    begun = np.full(len(low), -1, np.int64)
    rows = np.flatnonzero(np.isin(trace.kind, (Event.SEGMENT_ALLOC, *_GIVES)))
    place = place_of(rows)
    np.maximum.at(begun, place[place >= 0], rows[place >= 0])
    mapped = np.flatnonzero(trace.kind == Event.SEGMENT_MAP)
    early = place_of(mapped[mapped < trace.before])
    recorded = np.ones(len(pools), np.bool_)
    recorded[owner[(begun >= 0) & (begun < trace.before)]] = False
    recorded[owner[early[(early >= 0) & (begun[early] < 0)]]] = False
    requested = trace.blocks.row
    place = place_of(requested)
    inside = (place >= 0) & (requested > begun[place])
    return np.where(inside, owner[place], -1), recorded


def _captures(trace: Trace, pool: Rows) -> tuple[Rows, Rows]:
    """Return the captures that request and free each block; -1 if none of its pool frees it."""
    requested, freed = trace.blocks.row, trace.blocks.freed
    gives = np.flatnonzero(np.isin(trace.kind, _GIVES))
    returned = np.searchsorted(gives, requested)
    is_first = np.ones(len(requested), np.bool_)
    is_first[1:] = (np.diff(pool) != 0) | (np.diff(returned) != 0)
    begins = requested[is_first]
    # A capture lasts until another capture begins or memory returns to the driver.
    ends = np.minimum(
        np.append(begins[1:], len(trace)), np.append(gives, len(trace))[returned[is_first]]
    )
    born = np.cumsum(is_first) - 1
    capture = np.searchsorted(begins, freed, "right") - 1
    is_freed = (freed != NOT_FREED) & (freed < ends[capture])
    is_freed &= pool[is_first][capture] == pool
    return born, np.where(is_freed, capture, -1)
