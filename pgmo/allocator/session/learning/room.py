"""Whether a plan's arena has pages beside what lives, without more than windows would take.

    pages held, when windows alone have served      [ what lives ][ holes ][ fragments ]
    pages that the plan would have                  [ what lives ][ holes ][ arena ]

What lives at the end of an iteration lies where it was put among blocks that have died, so its
pages have holes. A window fills them in the next iteration; an arena cannot, and comes on top.
"""

import numpy as np

from pgmo.allocator import tuning
from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.plans.page_costs import PAGE
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER


class Room:
    """What windows have taken so far, against what they and an arena would.

    Args:
        adapter: whose engine serves from no plan.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._engine = adapter.engine
        # What takes turns with another session is to lie where the other's arena idles.
        self._matters = adapter.pages and adapter.seat == 0
        self._plan: Plan | None = None  # that was asked of last
        self._needs = self._freed = 0

    def missing(self, plans: list[PlannedProfile]) -> int:
        """Return how many pages the largest of these plans needs above those taken so far.

        Call it between two iterations.

        Args:
            plans: at least one.

        Returns:
            0 where so few are missing that a plan may serve, and where there are no pages.
        """
        if not self._matters:
            return 0
        now = self._engine.statistics()
        plan = max((one.plan for one in plans), key=lambda plan: plan.arena)
        if plan is not self._plan:
            self._plan, self._needs, self._freed = plan, _pages_of(plan), _freed_pages(plan)
        with_plan = now["pages_occupied"] + (self._needs - self._freed) * PAGE
        held = now["peak_pages_held"]
        spare = int(tuning.ROOM_SHARE * held) // PAGE * PAGE
        missing = -(-(with_plan - held - spare) // PAGE)
        return missing if missing > tuning.ROOM_PAGES else 0


def _pages_of(plan: Plan) -> int:
    """Arenas of several streams have pages in common, about as many as their loads allow."""
    several = len(np.unique(plan.stream[plan.offset != UNPLANNED])) > 1
    return -(-(plan.max_load if several else plan.arena) // PAGE)


def _freed_pages(plan: Plan) -> int:
    """Return how many whole pages the blocks leave that live into the next iteration in slots.

    Gradients are such blocks. Small ones share their pages with what stays.
    """
    wraps = (plan.offset != UNPLANNED) & (plan.end != NEVER) & (plan.end > plan.ticks)
    return int((plan.size[wraps] // PAGE).sum())
