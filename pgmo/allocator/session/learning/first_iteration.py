"""A program's first iteration: planned for those who load the plan, and served for those who do."""

from collections.abc import Sequence

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session import advice
from pgmo.allocator.session.installer import Installer
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.errors import AdapterError, PlanError
from pgmo.packing.plan import Plan
from pgmo.packing.planner import for_opening
from pgmo.profiler.iterations.lifetimes import Steady
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import Iteration
from pgmo.profiler.tag import Tag


class FirstIteration:
    """Handle the first iteration, in which optimizer state is born, which is in no plan.

    Args:
        state: where the session stands.
        installer: has the plans.

    Attributes:
        profile: it, as it was recorded; None where nobody wants it.
        running: whether it is being served from a saved plan.
    """

    def __init__(self, state: SessionState, installer: Installer) -> None:
        self._state = state
        self._installer = installer
        self._plans: list[Plan] = []
        self.profile: Profile | None = None
        self.running = False

    def begin(self, opening: Plan, steady: list[PlannedProfile]) -> bool:
        """Serves it, from plans for each structure that it may have.

        Args:
            opening: its plan, as it was recorded.
            steady: what is going to serve the later ones.

        Returns:
            False when that cannot be done; then nothing is held.
        """
        self._installer.opening = PlannedProfile(opening, None)
        from pgmo.allocator.plans.openings import openings

        self._plans = openings(opening, [planned.plan for planned in steady])
        try:
            self._installer.plans.install_openings(self._plans, steady)
        except (AdapterError, PlanError) as error:
            self._state.warn(f"the plan given cannot serve the first iteration: {error}")
            self._installer.plans.clear()
            return False
        self.running = True
        self._state.phase = Phase.REPLAY
        self._state.adapter.advise(advice.while_replaying(opening, None))
        return True

    def end(self, statistics: IterationStatistics) -> bool:
        """Ends it; its plans are still in the engine. Returns whether this is their program.

        Half of the requests show that. It may have begun at a length that no plan knows, or have
        gone on from a checkpoint, so that no state was born; later iterations teach the rest.
        """
        self.running = False
        return statistics.known_rate >= heuristics.current.worthwhile_share

    def note(
        self,
        iterations: list[Iteration],
        steady: Steady,
        tags: Sequence[Tag],
        meta: ProfileMeta,
    ) -> None:
        """Makes its profile from the session's first recording; plans it for those who load it."""
        options, installer = self._state.options, self._installer
        wanted = options.save_directory is not None or options.record_only
        if not wanted or installer.opening is not None:
            return
        from pgmo.profiler.iterations.opening_profile import build_opening

        profile = build_opening(iterations, steady, tags, meta)
        if profile is None or not np.any(profile.turns > 0):
            return
        self.profile = profile
        if not options.record_only:
            plan = make_plan(profile, for_opening(self._state.planning, profile))
            installer.opening = PlannedProfile(plan, profile)
