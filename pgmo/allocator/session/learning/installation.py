"""Rule that decides whether a plan's arena pays, compared with windows.

    pages held, if only windows serve               [ live blocks ][ holes ][ fragments ]
    pages held with the plan                        [ live blocks ][ holes ][ arena ]

Blocks alive at the end of an iteration were placed among blocks that are free by then, so their
pages have holes. A window fills these holes in the next iteration. An arena cannot, so its pages
add to them.

If all iterations are equal, a plan maps no page. It may need more pages than windows once windows
have moved as many pages as are free between two iterations. They do so if streams lag behind each
other. If lengths vary or structures alternate, each divergence from a plan moves pages out of the
arena, and the next iteration moves them back; windows may move fewer. Such a plan pays only after
windows have moved that many pages during one recording (the ski-rental rule). Until then, nothing
is compared or planned. Each removal of a plan that served too little doubles the required moves.
"""

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.state import SessionState
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER

PAGE = 2 << 20
"""Bytes of a page: the granularity of the driver's virtual memory on all current devices."""


class InstallationRule:
    """Comparison of plans with the windows that have served so far.

    Attributes:
        moved: pages that windows have mapped at another address since recording began.
        iterations: iterations over which `moved` was counted.
        removed: number of times that plans were removed because they served too little.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._engine = state.adapter.engine
        self.moved = 0
        self.iterations = 0
        self.removed = 0

    def begin(self) -> None:
        """Restart the count of moved pages, because earlier moves may not recur."""
        self.moved = self.iterations = 0

    def served_by_windows(self, moved: int) -> None:
        """Add an iteration that no plan served, in which windows moved so many pages."""
        self.moved += moved
        self.iterations += 1

    def remove(self) -> None:
        """Note that plans were removed, which doubles the moves required for the next ones."""
        self.removed += 1
        self.begin()

    def unpaid(self) -> str:
        """Return why a plan does not pay yet, or "" if it may.

        A plan for a program that repeats pays at once if none was removed: see `objection`.
        """
        if self.is_wanted or not self._state.adapter.pages or self._is_paid:
            return ""
        return (
            f"without a plan only {self.moved:,} pages were remapped in "
            f"{self.iterations} iterations"
        )

    def objection(self, plans: list[PlannedProfile], *, repeats: bool) -> str:
        """Return why these plans do not pay, or "" if they do.

        Args:
            plans: at least one plan.
            repeats: whether each iteration makes the same requests as the last one.
        """
        if self.is_wanted or not self._state.adapter.pages:
            return ""
        if self.removed and (unpaid := self.unpaid()):
            return unpaid
        missing = self._missing_pages(plans)
        # A session that takes turns with another one places its arena in the other's idle pages.
        has_room = missing <= self._spare_pages() or self._state.adapter.session_index != 0
        if not has_room and not (repeats and self._is_paid):
            return f"with its arena, the program would take {missing:,} pages more than without"
        return ""

    @property
    def _is_paid(self) -> bool:
        """Return whether windows have moved as many pages as are free between two iterations."""
        now = self._engine.statistics()
        free = max(PAGE, now["peak_pages_held"] - now["pages_occupied"])
        return self.moved * PAGE >= heuristics.current.price * (free << self.removed)

    @property
    def is_wanted(self) -> bool:
        """Return whether the options require a plan, as `budget` and `save` do."""
        options = self._state.options
        return options.budget is not None or options.save_directory is not None

    def _missing_pages(self, plans: list[PlannedProfile]) -> int:
        """Return the pages that the largest plan needs beyond those that windows held."""
        now = self._engine.statistics()
        plan = max((one.plan for one in plans), key=lambda plan: plan.arena)
        with_plan = now["pages_occupied"] + (_pages_of(plan) - _freed_pages(plan)) * PAGE
        return int(-(-(with_plan - now["peak_pages_held"]) // PAGE))

    def _spare_pages(self) -> int:
        """Return the number of pages that a plan may add."""
        held = self._engine.statistics()["peak_pages_held"]
        return -(-int(heuristics.current.spare_share * held) // PAGE)


def _pages_of(plan: Plan) -> int:
    """Return the number of pages of a plan's arenas.

    Several streams may share pages, in the order of the program's events: see `ordered_load`.
    """
    several = len(np.unique(plan.stream[plan.offset != UNPLANNED])) > 1
    needed = (plan.ordered_load or plan.max_load) if several else plan.arena
    return -(-needed // PAGE)


def _freed_pages(plan: Plan) -> int:
    """Return the whole pages outside the arena that a plan frees by moving blocks into slots.

    These are blocks that live into the next iteration, such as gradients. Smaller blocks free no
    page, because they share pages with blocks that stay.
    """
    wraps = (plan.offset != UNPLANNED) & (plan.end != NEVER) & (plan.end > plan.ticks)
    return int((plan.size[wraps] // PAGE).sum())
