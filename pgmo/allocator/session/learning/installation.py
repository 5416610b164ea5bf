"""Decides whether plans are worth an arena, against what windows have taken and moved.

    pages held, when windows alone have served      [ what lives ][ holes ][ fragments ]
    pages that the plan would have                  [ what lives ][ holes ][ arena ]

Blocks that live at the end of an iteration were placed among blocks that have died, so their pages
have holes. A window fills these in the next iteration; an arena cannot, and comes on top.

Where each iteration is like the last one, a plan maps nothing. It may take more pages than windows
once these have moved as many as are free between two iterations, as they do where streams lag
behind each other. Where lengths vary or structures take turns, each departure from a plan moves
pages out of the arena, and the next iteration moves them back; windows may move fewer. So such a
plan pays only once windows have moved as many pages during one recording, as rent is paid before a
house is bought.
Nothing is compared or planned before. After a plan that was removed, because it served too little,
the next one has to wait for twice as many moves.
"""

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.state import SessionState
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER

PAGE = 2 << 20
"""Bytes of a page: what the driver maps at once on each device of today."""


class InstallationRule:
    """Compares plans with the windows that have served so far.

    Args:
        state: of the session.

    Attributes:
        moved: pages that windows have mapped at another address since recording began.
        iterations: how many iterations that took.
        removed: how often plans were removed, because they served too little.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._engine = state.adapter.engine
        self.moved = 0
        self.iterations = 0
        self.removed = 0

    def begin(self) -> None:
        """Begin to count what windows move: what they have moved before may not come again."""
        self.moved = self.iterations = 0

    def served_by_windows(self, moved: int) -> None:
        """Add an iteration that no plan served.

        Args:
            moved: pages that were mapped at another address in it.
        """
        self.moved += moved
        self.iterations += 1

    def remove(self) -> None:
        """Note that plans were removed: the next ones have to wait for twice as many moves."""
        self.removed += 1
        self.begin()

    def unpaid(self) -> str:
        """Return why a plan does not pay yet, in plain words; "" when it may.

        One for a program that repeats pays at once, as long as none was removed: see `objection`.
        """
        if self.is_wanted or not self._state.adapter.pages or self._is_paid:
            return ""
        return (
            f"without a plan only {self.moved:,} pages were mapped anew in "
            f"{self.iterations} iterations"
        )

    def objection(self, plans: list[PlannedProfile], *, repeats: bool) -> str:
        """Return why these plans do not pay, in plain words; "" when they do.

        Args:
            plans: at least one.
            repeats: whether each iteration makes the requests of the last one.
        """
        if self.is_wanted or not self._state.adapter.pages:
            return ""
        if self.removed and (unpaid := self.unpaid()):
            return unpaid
        missing = self._missing_pages(plans)
        # A session that takes turns with another one has its arena where the other's is idle.
        has_room = missing <= self._spare_pages() or self._state.adapter.seat != 0
        if not has_room and not (repeats and self._is_paid):
            return (
                f"beside what lives, its arena would take {missing:,} pages more than the program "
                "has without it"
            )
        return ""

    @property
    def _is_paid(self) -> bool:
        """Return whether windows have moved as many pages as are free between two iterations."""
        now = self._engine.statistics()
        free = max(PAGE, now["peak_pages_held"] - now["pages_occupied"])
        return self.moved * PAGE >= heuristics.current.price * (free << self.removed)

    @property
    def is_wanted(self) -> bool:
        """Return whether nothing but a plan will do: only plans spill, and only plans are saved."""
        options = self._state.options
        return options.budget is not None or options.save_directory is not None

    def _missing_pages(self, plans: list[PlannedProfile]) -> int:
        """Return how many pages the largest of these plans needs beyond those that windows held."""
        now = self._engine.statistics()
        plan = max((one.plan for one in plans), key=lambda plan: plan.arena)
        with_plan = now["pages_occupied"] + (_pages_of(plan) - _freed_pages(plan)) * PAGE
        return int(-(-(with_plan - now["peak_pages_held"]) // PAGE))

    def _spare_pages(self) -> int:
        """Return how many pages a plan may add."""
        held = self._engine.statistics()["peak_pages_held"]
        return -(-int(heuristics.current.spare_share * held) // PAGE)


def _pages_of(plan: Plan) -> int:
    """Return the pages of a plan's arenas.

    Several streams may share pages, in the order of the program's events: see `ordered_load`.
    """
    several = len(np.unique(plan.stream[plan.offset != UNPLANNED])) > 1
    needed = (plan.ordered_load or plan.max_load) if several else plan.arena
    return -(-needed // PAGE)


def _freed_pages(plan: Plan) -> int:
    """Return how many whole pages are left by blocks that live into the next iteration in slots.

    Gradients are such blocks. Small ones share their pages with what stays.
    """
    wraps = (plan.offset != UNPLANNED) & (plan.end != NEVER) & (plan.end > plan.ticks)
    return int((plan.size[wraps] // PAGE).sum())
