"""Search for plans in a recording: finds repeating structures, and decides whether plans pay.

    recording ──▶ structures that are not planned yet ──▶ plans that pay ──▶ PlanDecision: replay
                    │ none                                  │ none
                    └───────────────────────────────────────┴──────────────▶ PlanDecision: a reason

`PlanFinder.find` makes the plans. It updates the session's profile and plan and the length of the
next recording, but installs nothing. The state machine (`lifecycle.py`) acts on the `PlanDecision`.
"""

from dataclasses import dataclass, field

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.installer import Installer
from pgmo.allocator.session.learning.installation import InstallationRule
from pgmo.allocator.session.learning.recorded_plans import (
    all_found,
    all_repeat,
    is_planned,
    plan_all,
)
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.verdict.growth import origin_of_persistent
from pgmo.packing.planner import for_opening
from pgmo.profiler.iterations.lifetimes import Steady, build_profile
from pgmo.profiler.iterations.step_finder import best_effort, find_all, find_repeated
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import Iteration, split


@dataclass(frozen=True)
class PlanDecision:
    """Result of a recording: plans to replay, or the reason why there are none.

    Args:
        plans: plans to replay; empty if there is a reason, or if the session only records.
        number: number of the plan that the latest iteration follows.
        reason: why there are no plans; "" if there are plans, or if the session only records.
        keeps: whether earlier plans may continue to serve.
        warning: warning for the user, once the plans serve; "" for none.
    """

    plans: list[PlannedProfile] = field(default_factory=list)
    number: int = 0
    reason: str = ""
    keeps: bool = False
    warning: str = ""


class PlanFinder:
    """Search for plans in a recording."""

    def __init__(
        self,
        state: SessionState,
        recorder: Recorder,
        installer: Installer,
        rule: InstallationRule,
    ) -> None:
        self._state = state
        self._options = state.options
        self._engine = state.adapter.engine
        self._recorder = recorder
        self._installer = installer
        self._rule = rule

    @property
    def may_find_early(self) -> bool:
        """Return whether a recording may suffice before it has its full length.

        With pages, the latest iterations must have equal numbers of requests and of bytes. While
        plans serve, or if the recording is lengthened for alternating structures, return False.
        """
        if len(self._installer.plans) or self._recorder.is_lengthened:
            return False
        if not self._state.adapter.pages:
            return self._recorder.iterations > heuristics.current.confirmations
        return self._recorder.is_steady

    def find(self, last: bool) -> PlanDecision | None:
        """Search a recording for plans; return None if the recording has to continue.

        Args:
            last: whether the recording has its full length.
        """
        known, unpaid = self._installer.plans.all, self._rule.unpaid()
        saves_more = self._options.needs_first
        if unpaid and not (known or saves_more or self._recorder.may_repeat):
            return PlanDecision(reason=unpaid) if last else None  # no need to read the events
        iterations = split(self._engine.events())
        found = [] if saves_more else find_repeated(iterations)
        if not found and (saves_more or not unpaid):
            found = find_all(iterations)  # several structures, or one structure at several lengths
        if not last:
            found = [one for one in found if one.followers >= heuristics.current.confirmations]
        new = [one for one in found if not is_planned(known, iterations[one.reference])]
        if new:
            return self._plan(iterations, new)
        if not last:
            return None
        if not known and self._options.needs_any_plan:
            steady = best_effort(iterations)
            assert steady is not None
            warning = (
                f"{self._recorder.iterations} iterations were recorded and no two agree "
                f"({steady.explanation}), so the plan will serve only part of the requests"
            )
            return self._plan(iterations, [steady], warning)
        if found:
            return PlanDecision(reason="its plans serve too little", keeps=True)
        return PlanDecision(reason=unpaid or "its iterations do not repeat", keeps=True)

    def _plan(
        self, iterations: list[Iteration], found: list[Steady], warning: str = ""
    ) -> PlanDecision:
        # The newest structure comes last, because its plan becomes `state.plan`.
        profiles = [
            (build_profile(iterations, steady, self._recorder.tags, self._meta_of(steady)), steady)
            for steady in reversed(found)
        ]
        latest = origin_of_persistent(profiles[-1][0])
        self._state.persistent_origin = latest or self._state.persistent_origin
        if self._options.record_only:
            self._note_first(iterations, found[0])
            self._state.profile = profiles[-1][0]
            return PlanDecision()
        useful = [(profile, steady) for profile, steady in profiles if np.any(profile.turns > 0)]
        if not useful:
            self._state.profile = profiles[-1][0]
            return PlanDecision(reason="its blocks are never freed, or are shared by streams")
        if not len(self._installer.plans):
            self._note_first(iterations, useful[-1][1])
        return self._plan_useful(iterations, useful, warning)

    def _plan_useful(
        self, iterations: list[Iteration], useful: list[tuple[Profile, Steady]], warning: str
    ) -> PlanDecision:
        known, found = self._installer.plans.all, [steady for _, steady in useful]
        repeats = all_repeat(iterations, found[-1])
        if not (self._options.needs_found_plans or repeats or all_found(iterations, found, known)):
            self._recorder.lengthen()  # alternating structures must each occur twice
            return PlanDecision(reason="some of its iterations do not repeat", keeps=True)
        plans, shown = plan_all(
            iterations,
            useful,
            known,
            self._state.planning,
            # Saved plans use no gaps, because another process has other idle memory.
            keeps_gaps=not self._options.needs_found_plans,
        )
        if not plans:
            return PlanDecision(
                reason="the framework has idle memory for all blocks that could have a slot"
            )
        plans, shown = self._installer.within_limit(plans, shown)
        self._state.profile, self._state.plan = plans[shown].profile, plans[shown].plan
        chosen, objection = self._rule.choose(plans, repeats=repeats)
        if objection:
            return PlanDecision(reason=objection, keeps=True)
        return PlanDecision(chosen, shown, warning=warning)

    def _note_first(self, iterations: list[Iteration], steady: Steady) -> None:
        """Build the profile of the first iteration, and its plan unless the session only records.

        Without the options `save` and `record_only`, do nothing.
        """
        if not self._options.needs_first or self._installer.opening is not None:
            return
        from pgmo.profiler.iterations.opening_profile import build_opening

        profile = build_opening(iterations, steady, self._recorder.tags, self._meta_of(steady))
        if profile is None or not np.any(profile.turns > 0):
            return
        self._state.opening = profile
        if not self._options.record_only:
            plan = make_plan(profile, for_opening(self._state.planning, profile))
            self._installer.opening = PlannedProfile(plan, profile)

    def _meta_of(self, steady: Steady) -> ProfileMeta:
        return self._state.meta({"steady": steady.kind, "found": steady.explanation})
