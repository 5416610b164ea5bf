"""Plans from a recording: one for each structure, united where they are of one program."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.lessons import (
    families_of,
    merge,
    relatives,
    shorter_of,
    without_provisional,
)
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.step_finder import Steady
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration


@dataclass(frozen=True, eq=False)
class Recorded:
    """What has been recorded, and what was known before.

    Args:
        iterations: all of them.
        structures: a profile of each structure that repeats, the newest last.
        known: plans that there are.
        completing: a plan that this recording takes the place of; None for none.
    """

    iterations: Sequence[Iteration]
    structures: Sequence[tuple[Profile, Steady]]
    known: Sequence[PlannedProfile]
    completing: PlannedProfile | None

    @property
    def repeats(self) -> bool:
        """Whether all iterations since the first of the newest structure made its requests."""
        newest = self.structures[-1][1]
        return newest.kind == "exact" and all(
            index in newest.rows for index in range(newest.reference, len(self.iterations))
        )

    def plans(
        self, planning: PlanningOptions, keeps_gaps: bool
    ) -> tuple[list[PlannedProfile], int]:
        """All plans that there are now, and the number of that of the newest structure.

        None where no request gets a slot.

        Args:
            planning: how to plan.
            keeps_gaps: whether requests that the framework has idle memory for get no slot.
        """
        useful, same = self.structures, self.repeats
        if same and not self.known:
            useful = useful[-1:]  # what came before was the beginning, which does not come again
        # What single iterations have taught of these structures is known better now.
        references = [self.iterations[steady.reference] for _, steady in useful]
        kept = without_provisional(self.known, references)
        plans, shown = [one for one in kept if one is not self.completing], 0
        for profile, steady in useful:
            own = (profile, self.iterations[steady.reference])
            for one, reference in (*relatives(self.iterations, steady, profile), own):
                family = families_of(self.iterations, steady) if one is profile else None
                shorter = shorter_of(self.iterations, steady, profile) if one is profile else None
                in_gap = reference.in_gap if same and keeps_gaps else None
                merged, number = merge(plans, one, reference, planning, family, in_gap, shorter)
                if merged[number].plan.arena:  # else the framework has idle memory for all of it
                    plans, shown = merged, number
        return plans, shown
