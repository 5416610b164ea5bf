"""Rule that decides whether a plan pays, compared with windows.

    pages held, if only windows serve               [ live blocks ][ holes ][ fragments ]
    pages held with the plan                        [ live blocks ][ holes ][ arena ]

Windows serve requests by best fit, without a plan. Blocks alive at the end of an iteration were
placed among blocks that have been freed since, so their pages have holes. Windows fill the holes in
the next iteration. An arena cannot fill holes, so it needs additional pages. If all iterations are
equal, replay of a plan with enough pages maps no pages. Windows still map pages if streams lag
behind each other. If lengths vary or structures alternate, each divergence from a plan moves pages
out of the arena and back. docs/design.md lists the conditions of this rule.
"""

import math
from dataclasses import replace

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.plans.shared_pages import shared_pages
from pgmo.allocator.session.state import SessionState
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER

PAGE = 2 << 20
"""Bytes of a page: the granularity of the driver's virtual memory on all current devices."""


class InstallationRule:
    """Comparison of plans with the windows that have served so far.

    Attributes:
        moved: number of pages that were mapped at another address while no plan served, since plans
            were last removed. Iterations that created pages do not count.
        iterations: number of iterations over which `moved` was counted.
        removed: number of times that plans were removed because they served too little.
        pause: `iterations` and the process's requested bytes at the beginning of the last BACKOFF.
            None before the first BACKOFF, and after plans were installed or steps were joined.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._engine = state.adapter.engine
        self.moved = 0
        self.iterations = 0
        self.removed = 0
        self.pause: tuple[int, int] | None = None

    def served_by_windows(self, moved: int, iterations: int = 1) -> None:
        """Count iterations without a plan, and the pages that windows moved in them."""
        self.moved += moved
        self.iterations += iterations

    def remove(self) -> None:
        """Record that plans were removed. The next plans then require twice as many moved pages."""
        self.removed += 1
        self.moved = self.iterations = 0

    def begin_pause(self) -> None:
        """Note the beginning of a BACKOFF, in which only sums of requested bytes are known."""
        if not self._serves_anyway:
            self.pause = self.iterations, self._state.adapter.requested_bytes

    def unpaid(self) -> str:
        """Return why a plan does not pay yet, or "" if it may pay.

        `choose` ignores this reason if no plan was removed, and all iterations since the beginning
        of the last BACKOFF are equal.
        """
        if self._serves_anyway or self._is_paid():
            return ""
        return (
            f"without a plan only {self.moved:,} pages were remapped in "
            f"{self.iterations} iterations"
        )

    def choose(
        self, plans: list[PlannedProfile], *, repeats: bool
    ) -> tuple[list[PlannedProfile], str]:
        """Choose how streams share pages, if the plans pay.

        Args:
            plans: at least one plan.
            repeats: whether the latest recorded iterations are equal (`all_repeat`).

        Returns:
            The plans and ""; or no plans, and the reason why they do not pay.
        """
        if self._serves_anyway:
            return plans, ""
        # The recorded iterations may be equal although iterations of the BACKOFF differed.
        waits = self.removed or self._differed_since_pause(plans[-1])
        if waits and (unpaid := self.unpaid()):
            return [], unpaid
        missing, spare = self._missing_pages(plans), self._spare_pages()
        # A second session on the device places its arena in the idle pages of the first session.
        if missing <= spare or self._state.adapter.session_index != 0:
            return plans, ""
        by_requests = [replace(one, follows_events=False) for one in plans]
        if self._missing_pages(by_requests) <= spare:
            return by_requests, ""
        if repeats and self._is_paid(most=1) and self._moves_more_than(missing):
            return plans, ""
        return [], f"with a plan, the program would take {missing:,} pages more than without a plan"

    def _is_paid(self, most: float = math.inf) -> bool:
        """Return whether windows moved enough pages since plans were last removed.

        The minimum is the free pages times `price`, or times `most` if `most` is less. Each removal
        of plans doubles the minimum.
        """
        now = self._engine.statistics()
        free = max(PAGE, now["peak_pages_held"] - now["pages_occupied"])
        return self.moved * PAGE >= min(heuristics.current.price, most) * (free << self.removed)

    def _moves_more_than(self, missing: int) -> bool:
        """Return whether windows moved more pages per iteration than a plan lacks, or `price` is 0.

        In each iteration, the plan moves at most the pages that it lacks.
        """
        return not heuristics.current.price or self.moved > missing * self.iterations

    def _differed_since_pause(self, newest: PlannedProfile) -> bool:
        """Return whether iterations since the beginning of the last BACKOFF differ from a plan.

        Sums of requested bytes are compared, because single requests of a BACKOFF are unknown.
        """
        if self.pause is None:
            return False
        iterations, requested = self.pause
        requested = self._state.adapter.requested_bytes - requested
        planned = (self.iterations - iterations) * int(newest.plan.size.sum())
        return abs(requested - planned) > heuristics.current.spare_share * planned

    @property
    def _serves_anyway(self) -> bool:
        """Return whether plans serve in any case: options require them, or there are no pages."""
        return self._state.options.needs_found_plans or not self._state.adapter.pages

    def _missing_pages(self, plans: list[PlannedProfile]) -> int:
        """Return the number of pages that the largest plan needs, minus the peak of held pages."""
        now = self._engine.statistics()
        largest = max(plans, key=lambda one: one.plan.arena)
        pages = _pages_of(largest) - _freed_pages(largest.plan)
        with_plan = now["pages_occupied"] + pages * PAGE
        return int(-(-(with_plan - now["peak_pages_held"]) // PAGE))

    def _spare_pages(self) -> int:
        held = self._engine.statistics()["peak_pages_held"]
        return -(-int(heuristics.current.spare_share * held) // PAGE)


def _pages_of(planned: PlannedProfile) -> int:
    """Return the number of pages of a plan's arenas, which streams may share."""
    plan = planned.plan
    stream = plan.stream[plan.offset != UNPLANNED]
    several = bool(np.any(stream != stream[:1]))
    if several and (plan.ordered_load is None or not planned.follows_events):
        return shared_pages(plan, PAGE)
    needed = (plan.ordered_load or plan.max_load) if several else plan.arena
    return -(-needed // PAGE)


def _freed_pages(plan: Plan) -> int:
    """Return the number of pages that wrapping blocks, such as gradients, now occupy in windows.

    These pages become free when the plan gives the wrapping blocks slots in the arena.
    """
    wraps = (plan.offset != UNPLANNED) & (plan.end != NEVER) & (plan.end > plan.ticks)
    return int(plan.size[wraps].sum() // PAGE)
