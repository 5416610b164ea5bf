"""A program's first iteration, for every structure that it may begin with.

    steady     a b . . c d          as planned, with offsets
    opening    a b s t c d          s, t: optimizer state, born in the first iteration
                                    and kept for good, so it is in no slot

What is born in the first iteration is known from one recording; the rest of it is the same as in
later iterations. So to each steady plan the births are added: the offsets of all else stay, and
what the first iteration leaves alive is where the next one expects it.
"""

from dataclasses import replace

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import requests_of
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.profile import NEVER


def openings(recorded: Plan, steady: list[Plan]) -> list[Plan]:
    """Plans of the first iteration, one for each steady plan that is like it.

    Args:
        recorded: plan of the first iteration as it was recorded.
        steady: plans of the later ones.

    Returns:
        At least one: that of the recording, where no steady plan is like it.
    """
    made = [_with_births(recorded, plan) for plan in steady]
    return [one for one in made if one is not None] or [recorded]


def _with_births(recorded: Plan, steady: Plan) -> Plan | None:
    born = recorded.end == NEVER
    others = np.flatnonzero(~born)
    rows = align(requests_of(steady), requests_of(recorded).part(others))
    paired = rows != UNPAIRED
    few = np.count_nonzero(paired) < heuristics.current.alike_share * min(len(others), len(steady))
    alike = _alike(steady, rows[paired], recorded.size[others[paired]])
    if few or alike < heuristics.current.equal_share * np.count_nonzero(paired):
        return None
    # Each birth comes before the first request behind it that the steady plan has, too.
    before = np.full(len(recorded) + 1, len(steady))
    before[others[paired]] = rows[paired]
    before = np.minimum.accumulate(before[::-1])[::-1]
    # What else only the first iteration asks for is known, too, but has no slot. Where much is
    # left over, it was a longer sequence, and that is what is left.
    once = born.copy()
    if np.count_nonzero(~paired) <= (1 - heuristics.current.alike_share) * len(others):
        once[others[~paired]] = True
    births = np.flatnonzero(once)
    place = before[births]
    shift = np.searchsorted(place, np.arange(len(steady) + 1), side="right")
    ticks = len(steady) + len(births)
    old = np.arange(len(steady)) + shift[:-1]
    new = place + np.arange(len(births))

    def merged(column: str, of_births: object = None) -> np.ndarray:
        values = np.empty(ticks, getattr(steady, column).dtype)
        values[old] = getattr(steady, column)
        values[new] = getattr(recorded, column)[births] if of_births is None else of_births
        return values

    turns, within = np.divmod(steady.end, max(1, steady.ticks))
    moved = turns * ticks + within + np.where(within > 0, shift[within], 0)
    end = merged("end", np.where(born[births], NEVER, new + 1))
    end[old] = np.where(steady.end == NEVER, NEVER, moved)
    return replace(
        steady,
        size=merged("size"),
        start=np.arange(ticks),
        end=end,
        stream=merged("stream"),
        varying=merged("varying", False),
        shared=merged("shared", recorded.shared[births] | ~born[births]),
        offset=merged("offset", UNPLANNED),
        alternate=merged("alternate", UNPLANNED),
        shorter=merged("shorter", 0),
        order=steady.order and steady.order.moved(old, np.arange(len(shift)) + shift),
        ticks=ticks,
        opening=None,
        others=(),
    )


def _alike(steady: Plan, rows: np.ndarray, size: np.ndarray) -> int:
    """Count requests of the first iteration whose sizes a steady plan's requests may have.

    One of them may be a shorter sequence; what does not depend on that has the same size in both,
    and what does lies between those that are known.
    """
    planned, shorter = steady.size[rows], steady.shorter[rows]
    between = (shorter > 0) & (shorter <= size) & (size <= planned)
    return int(np.count_nonzero((size == planned) | between))
