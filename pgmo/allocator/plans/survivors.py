"""What lives on from one iteration into the next, where another plan has other slots."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.plans.layout import Layout
from pgmo.packing.plan import Plan


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks that live in arenas, in the order of their places, none over another; shape (blocks,).

    Args:
        begin, end: offsets in bytes, as slots have them.
        until: the ticks at which they are expected to be free again.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    until: NDArray[np.int64]


def blocks_in(living: NDArray[np.void], bases: Mapping[int, int], layout: Layout) -> Blocks:
    """Those of a reading of the engine that lie in arenas.

    Args:
        living: what `Engine.living` says.
        bases: addresses at which the arenas begin, by stream.
        layout: where they begin among the offsets.
    """
    found: list[tuple[int, int, int]] = []
    for stream, base in bases.items():
        range_ = layout.ranges[stream]
        offset = living["address"].astype(np.int64) - base
        own = living[(offset >= 0) & (offset < range_.size)]
        for address, size, until in zip(own["address"], own["bytes"], own["until"], strict=True):
            begin = int(address) - base + range_.begin
            # Nobody knows of late ones: they may live for all of the iteration.
            found.append(
                (begin, begin + int(size), int(until) if until >= 0 else np.iinfo(int).max)
            )
    columns = np.array(sorted(found), np.int64).reshape(-1, 3)
    return Blocks(columns[:, 0], columns[:, 1], columns[:, 2])


def missed(plan: Plan, offset: NDArray[np.int64], blocks: Blocks) -> int:
    """Bytes that an iteration requests for slots in which blocks of the last one live still.

    Args:
        plan: what it follows.
        offset: of its slots, shape (requests,); negative for those that have none.
        blocks: what lives.
    """
    first = np.searchsorted(blocks.end, offset, "right")  # the first that ends behind the beginning
    last = np.searchsorted(blocks.begin, offset + plan.size, "left")
    rows = np.flatnonzero((offset >= 0) & (first < last))
    if not len(rows):
        return 0
    # The latest of each run of blocks; every second result is that of what lies between two runs.
    bounds = np.stack((first[rows], last[rows]), axis=1).ravel()
    latest = np.maximum.reduceat(np.append(blocks.until, 0), bounds)[::2]
    return int(plan.size[rows[latest > plan.start[rows]]].sum())
