"""What plans and pages cost each other: pages that are mapped at another address.

Where an iteration is like the last one, a plan maps nothing. Where lengths or structures vary, each
departure from a plan moves pages out of the arena, and the next iteration that follows it moves
them back; windows alone may move fewer. Nobody knows beforehand, so this is rented before it is
bought: a plan waits until the windows have moved as many pages as it has. It gives way when it has
moved twice as many more than they did, once for those that come to it, and waits for twice as long
the next time. That never costs more than a small
multiple of the better of the two (A. R. Karlin, M. S. Manasse, L. Rudolph and D. D. Sleator,
"Competitive snoopy caching", Algorithmica 3, 1988, section 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pgmo.allocator import tuning
from pgmo.allocator.plans.plan_set import PlannedProfile

PAGE = 2 << 20
"""Bytes of a page: `page` in csrc/pages/tuning.hpp."""


@dataclass
class PageCosts:
    """Pages moved so far, with a plan and without.

    Args:
        moved: pages that windows alone have moved since a plan last served.
        iterations: how many iterations they needed for that.
        excess: pages moved by iterations with a plan beyond what windows would have moved.
        failures: plans that have given way.

    Example:
        >>> costs = PageCosts()
        >>> costs.without_plan({"maps": 120, "creates": 20})
        >>> costs.moved, costs.per_iteration
        (100, 100.0)
    """

    moved: int = 0
    iterations: int = 0
    excess: float = 0.0
    failures: int = 0

    @property
    def per_iteration(self) -> float:
        """Pages that windows alone move in an iteration."""
        return self.moved / self.iterations if self.iterations else 0.0

    def without_plan(self, calls: Mapping[str, int]) -> None:
        """An iteration was served by windows alone; its driver calls, by kind."""
        self.moved += _moved(calls)
        self.iterations += 1

    def with_plan(self, calls: Mapping[str, int]) -> None:
        """An iteration was served with a plan; its driver calls, by kind."""
        self.excess = max(0.0, self.excess + _moved(calls) - self.per_iteration)

    def passed(self, iterations: int) -> None:
        """So many iterations were served with a plan, without a driver call."""
        self.excess = max(0.0, self.excess - iterations * self.per_iteration)

    def pays(self, plans: list[PlannedProfile], share: float = 1.0) -> bool:
        """Whether windows have moved as many pages as the plans have, or that share of them."""
        price = tuning.WAIT_PRICE * PlannedProfile.largest(plans) / PAGE * (1 << self.failures)
        return self.moved >= share * price

    def overspent(self, plans: list[PlannedProfile]) -> bool:
        """Whether the plans have moved twice their pages more than windows would have."""
        return self.excess > tuning.WAIT_EXCESS * PlannedProfile.largest(plans) / PAGE

    def give_way(self) -> None:
        """The plans serve no more, for now."""
        self.failures += 1
        self.moved = self.iterations = 0
        self.excess = 0.0

    def serve(self) -> None:
        """The plans serve from now on."""
        self.excess = 0.0


def _moved(calls: Mapping[str, int]) -> int:
    """Pages that had another address before: those that are new have to be mapped in any case."""
    return max(0, calls.get("maps", 0) - calls.get("creates", 0))
