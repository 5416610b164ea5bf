"""Installation of plans in the engine, with a fallback if there is too little memory."""

from dataclasses import replace

import numpy as np

from pgmo.allocator.plans.directory import PlanDirectory
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile, PlanSet
from pgmo.allocator.session import advice
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import Phase
from pgmo.allocator.session.threads.boundary import uninterrupted
from pgmo.errors import AdapterError, FileError
from pgmo.profiler.profile import MAX_SIZE
from pgmo.units import format_bytes
from pgmo.world import World, world

MOST_PLANS = 48
"""Maximum number of plans of a session. Above it, the least recently followed plans are dropped."""


class Installer:
    """Installer of plans for replay.

    Attributes:
        plans: plans in the engine.
        opening: plan of the first iteration, which is saved with `plans`; None if there is none.
    """

    def __init__(self, state: SessionState, recorder: Recorder) -> None:
        self._state = state
        self._recorder = recorder
        self._engine = state.adapter.engine
        self.plans = PlanSet(state.adapter)
        self.opening: PlannedProfile | None = None
        self._world: World | None = None  # of the last saved plans
        self._too_large = MAX_SIZE  # bytes of an arena that did not fit

    @uninterrupted()
    def install(self, plans: list[PlannedProfile], number: int) -> bool:
        """Replay these plans, beginning with plan `number`; return whether their arenas fit.

        If they do not fit, smaller earlier plans serve. If those do not fit, the session gives up.
        """
        before = self.plans.all
        try:
            self.plans.install(plans)
            if number >= 0:
                self._engine.select_plan(number)
        except AdapterError as error:
            self._fall_back(before, PlannedProfile.largest(plans), error)
            return False
        shown = plans[number]
        self._state.profile, self._state.plan = shown.profile, shown.plan
        self._state.phase = Phase.REPLAY
        self._state.adapter.advise(advice.while_replaying(shown.plan, shown.profile))
        self._engine.reset_peaks()
        return True

    def widen(self, number: int, grown: list[tuple[int, int]]) -> None:
        """Replace a plan by one with slots for larger requests (Sekiyama et al. 2018, section 4).

        The new plan has a slot of the largest size seen for each request. `grown` has the number
        and new bytes of each request that outgrew its slot. The old plan stays if the new arena
        does not fit, or if it is at least as large as an arena that did not fit before.
        """
        planned = self.plans.all[number]
        profile = planned.profile or planned.plan.profile()
        size = np.maximum(profile.size, planned.plan.size)
        for request, larger in grown:
            size[request] = max(size[request], larger)
        profile = profile.widened(size)
        plan = replace(make_plan(profile, self._state.planning), shorter=planned.plan.shorter)
        plans = list(self.plans.all)
        plans[number] = replace(planned, plan=plan, profile=profile)
        if PlannedProfile.largest(plans) < self._too_large and self.install(plans, number):
            self.save()

    def followed(self, number: int, iteration: int) -> None:
        """Record that an iteration has followed a plan; ignore a number without a plan."""
        if 0 <= number < len(self.plans):
            self.plans.all[number].followed = iteration

    def within_limit(
        self, plans: list[PlannedProfile], number: int
    ) -> tuple[list[PlannedProfile], int]:
        """Return plan `number` and the most recently followed other plans, up to `MOST_PLANS`.

        Also return the new number of plan `number`.
        """
        by_use = sorted(range(len(plans)), key=lambda at: (at != number, -plans[at].followed))
        keep = sorted(by_use[:MOST_PLANS])
        return [plans[at] for at in keep], keep.index(number)

    def save(self) -> None:
        """Write plans and profiles to the `save` directory, if there is one. On errors, warn."""
        options = self._state.options
        if options.save_directory is None:
            return
        # A process group may have ended before the session.
        self._world = world() or self._world
        # The plan with the largest arena is the main one of the file.
        plans = sorted(self.plans.all, key=lambda planned: -planned.plan.arena)
        folder = PlanDirectory(options.save_directory, options.model_name, self._world)
        try:
            files = folder.save(plans, self.opening)
        except FileError as error:
            self._state.warn(f"the plan could not be saved: {error}")  # training must continue
            return
        # A rank that saves a new plan removes the files of its earlier plan.
        known = dict.fromkeys((*self._state.saved, *files))
        self._state.saved = tuple(path for path in known if path.exists())

    def give_up(self, reason: str) -> None:
        """Serve no request from slots for the rest of the session, and warn the user."""
        self._recorder.stop()
        self.plans.clear()
        self._state.phase = Phase.BYPASS
        self._state.gave_up = reason
        pages = self._state.adapter.pages
        self._state.adapter.advise(advice.without_plan(reason, pages=pages))
        instead = "pages serve everything, without a plan"
        if not pages:
            instead = "the framework's own allocator serves everything"
        self._state.warn(f"{reason}; {instead}")

    def _fall_back(self, before: list[PlannedProfile], size: int, error: AdapterError) -> None:
        """Return to the previous plans if their arena is smaller and fits; otherwise give up."""
        # Keep only the first sentence, because frameworks append long memory reports.
        short = str(error).partition("\n")[0].partition(". ")[0].rstrip(".:")
        reason = f"the arena of {format_bytes(size)} could not be allocated: {short}"
        if before and PlannedProfile.largest(before) < size:
            try:
                self.plans.install(before)
            except AdapterError:
                pass
            else:
                self._too_large = size
                self._state.warn(f"{reason}; the previous plans serve")
                self._state.phase = Phase.REPLAY
                return
        self.give_up(reason)
