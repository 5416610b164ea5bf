"""Decides whether plans are worth an arena, against what windows have taken and moved.

    pages held, when windows alone have served      [ what lives ][ holes ][ fragments ]
    pages that the plan would have                  [ what lives ][ holes ][ arena ]

Blocks that live at the end of an iteration were placed among blocks that have died, so their pages
have holes. A window fills these in the next iteration; an arena cannot, and comes on top.

Where an iteration is like the last one, a plan maps nothing. It may take more pages than windows
once these have moved as many as it has, as they do where streams lag behind each other. Where
lengths vary, each departure from a plan moves pages out of the arena, and the next iteration moves
them back; windows may move fewer. So a plan for varying lengths pays only once windows have moved
as many pages as it has, as rent is paid before a house is bought. A plan that has moved twice its
pages more than windows would have is removed, and the next one has to wait for twice as many moves.
So neither choice costs more than a small multiple of the better one (Karlin, Manasse, Rudolph and
Sleator, "Competitive snoopy caching", Algorithmica 3, 1988, section 2).
"""

from collections.abc import Mapping

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.state import SessionState
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.iterations.iteration_kinds import Kind
from pgmo.profiler.profile import NEVER

PAGE = 2 << 20
"""Bytes of a page: `page` in csrc/pages/device.hpp."""


class InstallationRule:
    """Compares plans with the windows that have served so far.

    Args:
        state: of the session.

    Attributes:
        moved: pages that windows have mapped at another address since a plan last served.
        iterations: how many iterations that took.
        excess: pages that plans have moved beyond what windows would have moved.
        removed: how often plans were removed, for that or because they served too little.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._engine = state.adapter.engine
        self.moved = 0
        self.iterations = 0
        self.excess = 0.0
        self.removed = 0

    def served_by_windows(self, calls: Mapping[str, int]) -> None:
        """Add an iteration that no plan served.

        Args:
            calls: its driver calls, by kind.
        """
        self.moved += _moved(calls)
        self.iterations += 1

    def costs_more(self, plans: list[PlannedProfile], calls: Mapping[str, int]) -> bool:
        """Add an iteration that plans served; return whether they move too many pages.

        Args:
            plans: those that serve.
            calls: driver calls of the iteration, by kind.
        """
        self.excess += _moved(calls)
        self.passed(1)
        most = heuristics.current.most_excess * PlannedProfile.largest(plans) / PAGE
        return not self._is_wanted and self.excess > most

    def remove(self) -> None:
        """Note that plans were removed: the next ones have to wait for twice as many moves."""
        self.removed += 1
        self.moved = self.iterations = 0
        self.excess = 0.0

    def passed(self, iterations: int) -> None:
        """Add so many iterations that plans served without a driver call."""
        usual = self.moved / self.iterations if self.iterations else 0.0
        self.excess = max(0.0, self.excess - iterations * usual)

    def objection(self, plans: list[PlannedProfile], repetition: Kind) -> str:
        """Return why these plans do not pay, in plain words; "" when they do.

        Args:
            plans: at least one.
            repetition: of the recorded iterations: see `Recorded.repetition`.
        """
        if self._is_wanted:
            return ""
        if repetition == "none":
            return "some of its iterations do not repeat"
        if not self._state.adapter.pages:
            return ""
        pages = PlannedProfile.largest(plans) // PAGE
        exact = repetition == "exact"
        paid = self.moved >= heuristics.current.price * (pages << self.removed)
        if not paid and (not exact or self.removed):
            return (
                f"its arena has {pages:,} pages, and without it only {self.moved:,} were mapped "
                f"anew in {self.iterations} iterations"
            )
        missing = self._missing_pages(plans)
        # A session that takes turns with another one has its arena where the other's is idle.
        has_room = missing <= self._spare_pages() or self._state.adapter.seat != 0
        if not has_room and not (exact and paid):
            return (
                f"beside what lives, its arena would take {missing:,} pages more than the program "
                "has without it"
            )
        return ""

    @property
    def _is_wanted(self) -> bool:
        """Whether nothing but a plan will do: only plans spill, and only plans are saved."""
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
        return -(-int(heuristics.current.room_share * held) // PAGE)


def _moved(calls: Mapping[str, int]) -> int:
    """Return the pages that had another address before; new ones are mapped in any case."""
    return max(0, calls.get("maps", 0) - calls.get("creates", 0))


def _pages_of(plan: Plan) -> int:
    """Return the pages of a plan's arenas; those of several streams have pages in common."""
    several = len(np.unique(plan.stream[plan.offset != UNPLANNED])) > 1
    return -(-(plan.max_load if several else plan.arena) // PAGE)


def _freed_pages(plan: Plan) -> int:
    """Return how many whole pages are left by blocks that live into the next iteration in slots.

    Gradients are such blocks. Small ones share their pages with what stays.
    """
    wraps = (plan.offset != UNPLANNED) & (plan.end != NEVER) & (plan.end > plan.ticks)
    return int((plan.size[wraps] // PAGE).sum())
