"""Private pools of CUDA graphs and `MemPool` objects, and their size if graphs shared memory.

    pool (1, 0)   [ survivors | temporaries         ]
    pool (2, 0)   [ survivors | temporaries   ]
    shared        [ survivors | survivors | the larger temporaries ]

Survivors are blocks that no capture of a graph frees. Graphs use temporaries only during replays.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.trace import Trace
from pgmo.report.findings.captures import PoolBlocks, blocks_of_pools
from pgmo.units import format_bytes

_PAGE = 2 * 2**20
"""Size of the pages that graphs can share, in bytes."""

_MOST = 5
"""Maximum number of pools in text. HTML pages and JSON list all pools."""


@dataclass(frozen=True)
class PoolUse:
    """One private pool when the trace ends; sizes in bytes.

    Args:
        pool: the pool's id, as in a snapshot's `segment_pool_id`: "(0, 1)".
        kind: "graphs", "MemPool", or "" if unknown.
        reserved: sum of its segments.
        alive: bytes of live blocks.
        survivors: bytes of live blocks and, in a pool of graphs, of blocks that no capture freed. A
            graph may write to these blocks in every replay, so they cannot be shared.
        temporaries: peak bytes of all other blocks. If the pool's requests were not recorded, all
            reserved bytes outside of survivors, including holes.
        carried: peak bytes of temporaries that a later capture frees, such as activations between a
            forward and a backward graph.
        captures: number of runs of consecutive requests; 0 for a `MemPool` or without a recording.
        recorded: whether the requests of the pool were recorded.
    """

    pool: str
    kind: str
    reserved: int
    alive: int
    survivors: int
    temporaries: int
    carried: int
    captures: int
    recorded: bool

    def line(self) -> str:
        """Return the figures as a line of text."""
        text = (
            f"{self.pool} {self.kind}".rstrip() + f": {format_bytes(self.reserved)}, "
            f"{format_bytes(self.survivors)} survive, {format_bytes(self.temporaries)} temporary"
        )
        if not self.recorded:
            return f"{text} at most: its requests were not recorded"
        plural = "s" if self.captures > 1 else ""
        return f"{text}, about {self.captures} capture{plural}" if self.captures else text


@dataclass(frozen=True)
class PrivatePools:
    """All private pools of a device; sizes in bytes.

    Args:
        pools: the pools, largest first.
        reserved: sum of their segments.
        alive: bytes of live blocks.
        needed: bytes if graphs shared pages and replayed one after the other: all survivors and the
            largest temporaries, in whole pages. At least the peak of the live bytes. An upper bound
            if a pool was not recorded.
        interleaved: bytes with shared pages if all forward graphs replay before the backward
            graphs: the carried blocks of all pools are alive at once. None without carried blocks.
    """

    pools: tuple[PoolUse, ...]
    reserved: int
    alive: int
    needed: int
    interleaved: int | None

    @property
    def has_graphs(self) -> bool:
        """Return whether a pool belongs, or may belong, to graphs."""
        return any(one.kind != "MemPool" for one in self.pools)

    def sentence(self) -> str:
        """Return the reserved bytes and, for graphs, the bytes needed with shared pages."""
        plural = "s" if len(self.pools) > 1 else ""
        text = (
            f"{format_bytes(self.reserved)} in {len(self.pools)} private pool{plural} of graphs "
            f"or MemPools, {format_bytes(self.alive)} of it alive"
        )
        if not self.has_graphs:
            return text
        about = "" if all(one.recorded for one in self.pools) else "about "
        needed = f"{about}{format_bytes(self.needed)}"
        text += f"; {needed} if graphs that replay one after the other shared pages"
        if self.interleaved is not None and self.interleaved > self.needed:
            text += f" ({format_bytes(self.interleaved)} if all forwards precede the backwards)"
        return text

    def lines(self) -> list[str]:
        """Return the sentence, a line for each of the largest pools, and how many are smaller."""
        lines = [self.sentence(), *(one.line() for one in self.pools[:_MOST])]
        if len(self.pools) > _MOST:
            lines.append(f"and {len(self.pools) - _MOST} smaller ones")
        return [f"{'' if row else 'pools':<12}{text}" for row, text in enumerate(lines)]


def find_private_pools(trace: Trace) -> PrivatePools | None:
    """Measure the private pools that exist when a trace ends; return None if there are none."""
    if not trace.private:
        return None
    reserved = dict.fromkeys(sorted({one.pool for one in trace.private}), 0)
    for one in trace.private:
        reserved[one.pool] += one.size
    blocks = blocks_of_pools(trace, tuple(reserved))
    # No graph uses a block of a `MemPool` again after it was freed.
    survives = blocks.is_alive | ((blocks.freed < 0) & ~blocks.is_mempool[blocks.pool])
    order = np.argsort(blocks.pool, kind="stable")
    edges = np.searchsorted(blocks.pool[order], np.arange(1, len(reserved)))
    used = tuple(
        _use(pool, size, blocks, number, rows[survives[rows]], rows[~survives[rows]])
        for number, ((pool, size), rows) in enumerate(
            zip(reserved.items(), np.split(order, edges), strict=True)
        )
    )
    total = sum(reserved.values())
    survivors = sum(_pages(one.survivors) for one in used)
    shared = [one for one in used if one.kind != "MemPool" or not one.recorded]
    largest = max((one.temporaries for one in shared), default=0)
    carried = sum(one.carried for one in shared)
    alone = max((one.temporaries - one.carried for one in shared), default=0)
    at_once = _peak(blocks.begin, np.where(survives, len(trace), blocks.end), blocks.size)
    return PrivatePools(
        pools=tuple(sorted(used, key=lambda one: -one.reserved)),
        reserved=total,
        alive=sum(one.alive for one in used),
        needed=min(total, max(survivors + _pages(largest), at_once)),
        interleaved=min(total, survivors + _pages(carried + alone)) if carried else None,
    )


def _use(
    pool: tuple[int, int],
    reserved: int,
    blocks: PoolBlocks,
    number: int,
    kept: NDArray[np.int64],
    freed: NDArray[np.int64],
) -> PoolUse:
    """Measure one pool, given the rows of its survivors and of its other blocks."""
    size, recorded = blocks.size, bool(blocks.recorded[number])
    is_mempool = bool(blocks.is_mempool[number])
    is_graphs = not is_mempool and (recorded or not pool[1])
    survivors = min(reserved, _union(blocks.address[kept], size[kept]))
    if is_mempool:
        both = np.concatenate([kept, freed])
        at_once = _peak(blocks.begin[both], blocks.end[both], size[both]) - survivors
    else:
        at_once = _peak(blocks.begin[freed], blocks.end[freed], size[freed])
    # Survivors may lie at addresses of temporaries, so their sum can exceed the segments.
    temporaries = max(0, min(at_once, reserved - survivors)) if recorded else reserved - survivors
    is_captured = is_graphs and recorded
    carried = _peak(blocks.born[freed], blocks.freed[freed], size[freed]) if is_captured else 0
    return PoolUse(
        pool=str(pool),
        kind="MemPool" if is_mempool else "graphs" if is_graphs else "",
        reserved=reserved,
        alive=int(size[kept[blocks.is_alive[kept]]].sum()),
        survivors=survivors,
        temporaries=temporaries,
        carried=min(carried, temporaries),
        captures=len({*blocks.born[kept].tolist(), *blocks.born[freed].tolist()}) * is_captured,
        recorded=recorded,
    )


def _peak(begin: NDArray[np.int64], end: NDArray[np.int64], size: NDArray[np.int64]) -> int:
    """Return the peak of the live bytes. Blocks with an empty lifetime do not count."""
    at, place = np.unique(np.concatenate([begin, end]), return_inverse=True)
    change = np.zeros(len(at), np.int64)
    np.add.at(change, place, np.concatenate([size, -size]))
    return int(np.cumsum(change).max(initial=0))


def _union(address: NDArray[np.int64], size: NDArray[np.int64]) -> int:
    """Return the number of addresses that at least one of the ranges covers."""
    order = np.argsort(address, kind="stable")
    low, high = address[order], (address + size)[order]
    reached = np.concatenate([[0], np.maximum.accumulate(high)])[: len(low)]
    return int(np.maximum(0, high - np.maximum(low, reached)).sum())


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
