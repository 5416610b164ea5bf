"""Plans of a program's first iteration, one for each structure that it may have.

    steady     a b . . c d          as planned, with offsets
    opening    a b s t c d          s, t: optimizer state, allocated in the first iteration
                                    and never freed, so it has no slot

A recording shows which blocks only the first iteration allocates. Most other requests of the first
iteration equal requests of later iterations. So the plan of the first iteration is a steady plan
plus the blocks that only the first iteration allocates. All planned offsets stay, so blocks that
outlive the first iteration lie where the second iteration expects them.
"""

from dataclasses import replace

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import requests_of
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.profile import NEVER


def openings(recorded: Plan, steady: list[Plan]) -> list[Plan]:
    """Return plans of the first iteration: one per similar steady plan, else only `recorded`."""
    made = [_with_opening_blocks(recorded, plan) for plan in steady]
    return [one for one in made if one is not None] or [recorded]


def _with_opening_blocks(recorded: Plan, steady: Plan) -> Plan | None:
    persistent = recorded.end == NEVER
    others = np.flatnonzero(~persistent)
    rows = align(requests_of(steady), requests_of(recorded).part(others))
    paired = rows != UNPAIRED
    few = np.count_nonzero(paired) < heuristics.current.alike_share * min(len(others), len(steady))
    alike = _count_allowed_sizes(steady, rows[paired], recorded.size[others[paired]])
    if few or alike < heuristics.current.equal_share * np.count_nonzero(paired):
        return None
    # Insert each added block before the next request that is also in the steady plan.
    before = np.full(len(recorded) + 1, len(steady))
    before[others[paired]] = rows[paired]
    before = np.minimum.accumulate(before[::-1])[::-1]
    # Add other requests that only the first iteration makes, without a slot. If there are many,
    # the first iteration had a longer sequence: leave these requests out.
    once = persistent.copy()
    if np.count_nonzero(~paired) <= (1 - heuristics.current.alike_share) * len(others):
        once[others[~paired]] = True
    added = np.flatnonzero(once)
    place = before[added]
    shift = np.searchsorted(place, np.arange(len(steady) + 1), side="right")
    ticks = len(steady) + len(added)
    old = np.arange(len(steady)) + shift[:-1]
    new = place + np.arange(len(added))

    def merged(column: str, of_added: object = None) -> np.ndarray:
        values = np.empty(ticks, getattr(steady, column).dtype)
        values[old] = getattr(steady, column)
        values[new] = getattr(recorded, column)[added] if of_added is None else of_added
        return values

    turns, within = np.divmod(steady.end, max(1, steady.ticks))
    moved = turns * ticks + within + np.where(within > 0, shift[within], 0)
    end = merged("end", np.where(persistent[added], NEVER, new + 1))
    end[old] = np.where(steady.end == NEVER, NEVER, moved)
    return replace(
        steady,
        size=merged("size"),
        start=np.arange(ticks),
        end=end,
        stream=merged("stream"),
        varying=merged("varying", False),
        shared=merged("shared", recorded.shared[added] | ~persistent[added]),
        offset=merged("offset", UNPLANNED),
        alternate=merged("alternate", UNPLANNED),
        shorter=merged("shorter", 0),
        order=steady.order and steady.order.moved(old, np.arange(len(shift)) + shift),
        ticks=ticks,
        opening=None,
        others=(),
    )


def _count_allowed_sizes(steady: Plan, rows: np.ndarray, size: np.ndarray) -> int:
    """Count requests of the first iteration whose sizes the steady plan allows.

    If the first iteration has a shorter sequence, its sizes lie between the smallest recorded size
    and the planned size.
    """
    planned, shorter = steady.size[rows], steady.shorter[rows]
    between = (shorter > 0) & (shorter <= size) & (size <= planned)
    return int(np.count_nonzero((size == planned) | between))
