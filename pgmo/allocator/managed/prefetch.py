"""Choice of the pages that the next iteration needs first, from the plan alone.

    ticks      0 ───────────────▶ 9        room: 3 of the 5 slots
    slot a     ▓▓▓▓                          needed first   ─┐
    slot b       ▓▓▓▓▓▓                      needed second   ├─ to the device
    slot c          ▓▓▓▓▓                    needed third   ─┘
    slot d                ▓▓▓▓               later: not moved
    slot e     ▓▓───────────────▓            alive, and not needed before its end: to the host

A slot is needed when its block is requested, because a new block is written at once. A slot with a
live block is needed before the block's end, at an unknown tick. So slots are ordered by the end of
their live block, or by the start of their next block if no block is live.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import UNPLANNED, Plan

PAGE = 2 << 20
"""Bytes that move as a unit: the largest page of unified memory."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Moves:
    """Ranges of the arena to move, as (begin, end) in bytes; disjoint, and made of whole pages.

    Args:
        to_device: ranges for the device, in the order of need.
        to_host: ranges for the host, in the order of offsets.
    """

    to_device: tuple[Range, ...]
    to_host: tuple[Range, ...]


def moves(plan: Plan, room: int, *, page: int = PAGE) -> Moves:
    """Choose the pages to move to the device and to the host before an iteration.

    Args:
        plan: plan of the iteration.
        room: bytes that fit on the device.
        page: bytes of a page.

    Returns:
        For the device, the pages that are needed first, up to `room` bytes. For the host, all other
        pages that have live blocks.
    """
    period = max(1, plan.ticks)
    pages = -(-plan.arena // page)
    never = 2 * period
    needed = np.full(pages, never)
    alive = np.zeros(pages, np.bool_)
    for offset in (plan.offset, plan.alternate):
        for row in np.flatnonzero(offset != UNPLANNED).tolist():
            within = slice(offset[row] // page, -(-(offset[row] + plan.size[row]) // page))
            # Ticks from the request to the iteration's next start; 0 for the first request.
            since = -int(plan.start[row]) % period
            life = int(plan.end[row] - plan.start[row])
            lives = 0 < since < life
            until = life - since - 1 if lives else -since % period
            needed[within] = np.minimum(needed[within], until)
            alive[within] |= lives
    order = np.argsort(needed, kind="stable")[: room // page]
    chosen = np.zeros(pages, np.bool_)
    chosen[order] = needed[order] < never
    first = sorted(
        _runs(chosen, page), key=lambda run: needed[run[0] // page : run[1] // page].min()
    )
    return Moves(tuple(first), tuple(_runs(alive & ~chosen, page)))


def _runs(wanted: NDArray[np.bool_], page: int) -> list[Range]:
    """Return the ranges of adjacent pages that a mask selects, as (begin, end) in bytes."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False])))) * page
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
