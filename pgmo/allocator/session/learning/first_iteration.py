"""First iteration of a program: planned when a plan is saved, served when a plan is loaded."""

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
    """Handler of the first iteration, which allocates optimizer state that no other plan has.

    Attributes:
        profile: recorded profile of the first iteration; None if it is not needed.
        running: whether a saved plan serves the first iteration now.
    """

    def __init__(self, state: SessionState, installer: Installer) -> None:
        self._state = state
        self._installer = installer
        self._plans: list[Plan] = []
        self.profile: Profile | None = None
        self.running = False

    def begin(self, opening: Plan, steady: list[PlannedProfile]) -> bool:
        """Begin to serve the first iteration, from plans for each structure that it may have.

        Returns:
            False if the plans cannot be installed; then no arena is held.
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
        """End the first iteration; its plans stay in the engine.

        Returns:
            Whether the plans belong to this program. Half of the requests suffice: the sequence
            length may be new, and a program that resumes from a checkpoint allocates no state.
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
        """Build the profile of the first iteration, and its plan if that is saved."""
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
