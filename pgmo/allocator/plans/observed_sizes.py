"""The sizes that were seen: what a plan with headroom is saved as.

    seen      ▓▓▓▓▓▓▓▓         64 to 960 tokens
    planned   ▓▓▓▓▓▓▓▓░        up to 1,020: some more, so that not every length costs a plan
    saved     ▓▓▓▓▓▓▓▓▓        with 1,008 that came since, and without what never came

Headroom spares the running program new plans. Whoever loads the plan has seen all its lengths, and
would hold the headroom's memory for nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.packing.planning_options import PlanningOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgmo.profiler.recording import Iteration


class ObservedSizes:
    """Sizes of requests by structure, for the plans that have headroom.

    Example:
        >>> ObservedSizes().larger_than_before(planned, 1 << 30)  # doctest: +SKIP
        True
    """

    def __init__(self) -> None:
        self._sizes: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._most: dict[tuple[int, int], int] = {}  # bytes requested by the largest iteration

    def __len__(self) -> int:
        """Return the number of structures whose sizes are kept."""
        return len(self._sizes)

    def forget_others(self, plans: Iterable[PlannedProfile]) -> None:
        """Drop what is known of structures that none of these plans has."""
        kept = {planned.key for planned in plans}
        self._sizes = {key: sizes for key, sizes in self._sizes.items() if key in kept}
        self._most = {key: bytes_ for key, bytes_ in self._most.items() if key in kept}

    def follow(self, old: PlannedProfile, new: PlannedProfile) -> None:
        """A plan has been made of another one and of an iteration that has outgrown that."""
        noted = self._sizes.pop(old.key, None)
        sizes = noted if old.headroom else old.plan.size  # without headroom all of it was seen
        if sizes is not None and new.headroom and len(sizes) == len(new.plan):
            self._sizes[new.key] = sizes
        self._most.pop(old.key, None)

    def larger_than_before(self, planned: PlannedProfile, requested: int) -> bool:
        """Whether an iteration that followed a plan tells something new, and is worth a look.

        Args:
            planned: the plan, of which nothing is to be known without headroom.
            requested: bytes that the iteration asked for in all.
        """
        return planned.headroom > 0 and requested > self.known_up_to(planned)

    def known_up_to(self, planned: PlannedProfile) -> int:
        """Bytes that an iteration with a plan's requests has to ask for to tell something new."""
        return self._most.get(planned.key, 0)

    def note(self, planned: PlannedProfile, iteration: "Iteration", requested: int) -> bool:
        """Takes in the sizes of an iteration that has a plan's requests.

        Returns:
            Whether any of them is larger than before; False for a plan without headroom, of which
            nothing need be kept.
        """
        if not planned.headroom or len(iteration) != len(planned.plan):
            return False
        before = self._sizes.get(planned.key)
        sizes = iteration.size if before is None else np.maximum(before, iteration.size)
        self._sizes[planned.key] = sizes
        self._most[planned.key] = max(requested, self._most.get(planned.key, 0))
        return before is None or bool(np.any(sizes > before))

    def without_headroom(
        self, planned: PlannedProfile, planning: PlanningOptions
    ) -> PlannedProfile:
        """The plan for the sizes that were seen; the same one where nothing is known of them."""
        sizes = self._sizes.get(planned.key)
        if sizes is None or planned.profile is None or not planned.headroom:
            return planned
        own = planned.profile.size
        size = np.where(planned.profile.varying, np.minimum(own, sizes), own)
        profile = replace(planned.profile, size=size)
        shorter = np.minimum(planned.plan.shorter, size)
        return PlannedProfile(replace(make_plan(profile, planning), shorter=shorter), profile)
