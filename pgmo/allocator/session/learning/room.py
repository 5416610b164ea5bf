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
        self._needs, self._wraps = 0, (0, 0)

    def missing(self, plans: list[PlannedProfile], *, known: bool = True) -> int:
        """Pages that the largest of these plans would have above those that windows would.

        To be called between two iterations. Windows are expected to need as much more than so far
        as will live at once: optimizer state that was born since the peak, above all.

        Args:
            plans: at least one.
            known: whether iterations have been like them, so that a page more is worth it.

        Returns:
            0 where that is so little that a plan may serve, and where there are no pages.
        """
        if not self._matters:
            return 0
        now = self._engine.statistics()
        plan = max((one.plan for one in plans), key=lambda plan: plan.arena)
        if plan is not self._plan:
            self._plan, self._needs, self._wraps = plan, _pages_of(plan), _at_the_end(plan)
        freed, soon = self._wraps
        with_plan = now["pages_occupied"] + (self._needs - freed) * PAGE
        more = now["live_fallback_bytes"] - soon + plan.max_load - now["peak_fallback_bytes"]
        windows = now["peak_pages_held"] + max(0, more)
        windows += int(tuning.ROOM_SHARE * windows) // PAGE * PAGE
        missing = -(-(with_plan - windows) // PAGE)
        return missing if missing > (tuning.ROOM_PAGES if known else 0) else 0


def _pages_of(plan: Plan) -> int:
    """Arenas of several streams have pages in common, about as many as their loads allow."""
    several = len(np.unique(plan.stream[plan.offset != UNPLANNED])) > 1
    return -(-(plan.max_load if several else plan.arena) // PAGE)


def _at_the_end(plan: Plan) -> tuple[int, int]:
    """Of what lives from one iteration into the next and has a slot, such as gradients.

    Returns:
        Pages that it surely leaves, since small blocks share theirs with what stays, and bytes.
    """
    wraps = (plan.offset != UNPLANNED) & (plan.end != NEVER) & (plan.end > plan.ticks)
    sizes = plan.size[wraps]
    return int((sizes // PAGE).sum()), int(sizes.sum())
