"""Number of pages that a plan needs if its streams share pages in the order of its requests."""

import numpy as np

from pgmo import _core
from pgmo.allocator.plans.layout import extents
from pgmo.packing.plan import UNPLANNED, Plan


def shared_pages(plan: Plan, page: int) -> int:
    """Return the number of physical pages of a plan's arenas, for a plan without spilled slots.

    Streams share pages as if they ran in the order of the requests, by the engine's own rule
    (`csrc/engine/memory/sharing.hpp`). `page`: bytes of a page.
    """
    low = {stream: begin for stream, (begin, _) in extents(plan).items()}
    arena, base = np.zeros(len(plan), np.int64), np.zeros(len(plan), np.int64)
    for number, stream in enumerate(low):
        arena[plan.stream == stream], base[plan.stream == stream] = number, low[stream]
    second = plan.alternate != UNPLANNED
    # If a block outlives an iteration, its slots serve no other block.
    always = second | (plan.end - plan.start >= plan.ticks)
    begin = np.where(always, 0, plan.start)
    end = np.where(always, plan.ticks, np.minimum(plan.end, plan.ticks))
    planned = plan.offset != UNPLANNED
    wraps = planned & ~always & (plan.end > plan.ticks)
    uses = (
        (planned, plan.offset, begin, end),
        (wraps, plan.offset, np.zeros_like(begin), plan.end - plan.ticks),
        (planned & second, plan.alternate, begin, end),
    )
    rows = [
        (
            arena[some],
            (offset - base)[some] // page,
            (offset - base + plan.size - 1)[some] // page,
            since[some],
            until[some],
        )
        for some, offset, since, until in uses
    ]
    arena, first, last, begin, end = (np.concatenate(column) for column in zip(*rows, strict=True))
    return _core.count_shared_pages(arena, first, last, begin, end, plan.ticks)
