"""From a recording to plans: which structures it shows, and whether plans for them serve.

    recording ──▶ structures that are not planned yet ──▶ plans that pay ──▶ PlanDecision: replay
                    │ none                                  │ none
                    └───────────────────────────────────────┴──────────────▶ PlanDecision: a reason

The state machine acts on a decision (`lifecycle.py`). `PlanFinder.find` does all the planning. It
notes the profile, the plan and the next recording's length, but installs nothing.
"""

from dataclasses import dataclass, field

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.installer import Installer
from pgmo.allocator.session.learning.first_iteration import FirstIteration
from pgmo.allocator.session.learning.installation import InstallationRule
from pgmo.allocator.session.learning.recorded_plans import (
    all_found,
    all_repeat,
    is_planned,
    plan_all,
)
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.profiler.iterations.lifetimes import Steady, build_profile
from pgmo.profiler.iterations.step_finder import best_effort, find_all, find_repeated
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import Iteration, split


@dataclass(frozen=True)
class PlanDecision:
    """Result of a recording: plans to replay, or the reason why there are none.

    Args:
        plans: to replay; empty where there is a reason.
        number: of the plan that the latest iteration follows.
        reason: why there are none, in plain words; "" for a session that only records.
        keeps: whether earlier plans may go on serving.
        warning: for the user, once the plans serve; "" for none.
    """

    plans: list[PlannedProfile] = field(default_factory=list)
    number: int = 0
    reason: str = ""
    keeps: bool = False
    warning: str = ""


class PlanFinder:
    """Search for plans in a recording.

    Args:
        state: of the session; its latest profile and plan are noted there.
        recorder: of the recording.
        installer: has the plans that serve.
        first: the program's first iteration, which is planned with the first structure.
        rule: decides whether plans pay.
    """

    def __init__(
        self,
        state: SessionState,
        recorder: Recorder,
        installer: Installer,
        first: FirstIteration,
        rule: InstallationRule,
    ) -> None:
        self._state = state
        self._options = state.options
        self._engine = state.adapter.engine
        self._recorder = recorder
        self._installer = installer
        self._first = first
        self._rule = rule

    @property
    def may_find_early(self) -> bool:
        """Return whether a recording may show enough before it has its full length.

        With pages, the latest iterations must have made equally many requests of equally many
        bytes. False while plans serve, and for a lengthened recording, which waits for structures
        that take turns.
        """
        if len(self._installer.plans) or self._recorder.is_lengthened:
            return False
        if not self._state.adapter.pages:
            return self._recorder.iterations > heuristics.current.confirmations
        return self._recorder.is_steady

    @property
    def needs_any_plan(self) -> bool:
        """Return whether a plan is wanted though no two iterations agree."""
        return self._options.record_only or self._options.budget is not None

    def find(self, last: bool) -> PlanDecision | None:
        """Return what the recording shows: plans to replay, or a reason for none.

        Args:
            last: whether it is the longest that there is going to be.

        Returns:
            None where it has to go on.
        """
        iterations, known = split(self._engine.events()), self._installer.plans.all
        unpaid = self._rule.unpaid()
        found = [] if self._saves_more else find_repeated(iterations)
        if not found and (self._saves_more or not unpaid):
            found = find_all(iterations)  # at several lengths, or in turn
        if not last:
            found = [one for one in found if one.followers >= heuristics.current.confirmations]
        new = [one for one in found if not is_planned(known, iterations[one.reference])]
        if new:
            return self._plan(iterations, new)
        if not last:
            return None
        if not known and self.needs_any_plan:
            return self._plan_anyway(iterations)
        if found:
            return PlanDecision(reason="its plans serve too little", keeps=True)
        return PlanDecision(reason=unpaid or "its iterations do not repeat", keeps=True)

    @property
    def _saves_more(self) -> bool:
        """Return whether the first iteration is saved, unless it is like the later ones."""
        return self._options.save_directory is not None or self._options.record_only

    def _plan_anyway(self, iterations: list[Iteration]) -> PlanDecision:
        """Plan from what there is, although no two iterations agree."""
        steady = best_effort(iterations)
        assert steady is not None
        warning = (
            f"{self._recorder.iterations} iterations were recorded and no two agree "
            f"({steady.explanation}), so the plan will serve only part of the requests"
        )
        return self._plan(iterations, [steady], warning)

    def _plan(
        self, iterations: list[Iteration], found: list[Steady], warning: str = ""
    ) -> PlanDecision:
        """Plan the structures that a recording has shown, if that pays."""
        profiles = [
            (build_profile(iterations, steady, self._recorder.tags, self._meta_of(steady)), steady)
            for steady in reversed(found)  # the newest last: its plan is the one that is shown
        ]
        if self._options.record_only:
            self._note_first(iterations, found[0])
            self._state.profile = profiles[-1][0]
            return PlanDecision()
        useful = [(profile, steady) for profile, steady in profiles if np.any(profile.turns > 0)]
        if not useful:
            self._state.profile = profiles[-1][0]
            return PlanDecision(reason="no block of an iteration is ever freed")
        if not len(self._installer.plans):
            self._note_first(iterations, useful[-1][1])
        return self._plan_useful(iterations, useful, warning)

    def _plan_useful(
        self, iterations: list[Iteration], useful: list[tuple[Profile, Steady]], warning: str
    ) -> PlanDecision:
        known, found = self._installer.plans.all, [steady for _, steady in useful]
        repeats = all_repeat(iterations, found[-1])
        if not (self._rule.is_wanted or repeats or all_found(iterations, found, known)):
            self._recorder.lengthen()  # structures in turn: each has to come twice
            return PlanDecision(reason="some of its iterations do not repeat", keeps=True)
        plans, shown = plan_all(
            iterations, useful, known, self._state.planning, keeps_gaps=self._keeps_gaps
        )
        if not plans:
            return PlanDecision(
                reason="the framework has idle memory for all that an iteration needs"
            )
        plans, shown = self._installer.within_limit(plans, shown)
        self._state.profile, self._state.plan = plans[shown].profile, plans[shown].plan
        if objection := self._rule.objection(plans, repeats=repeats):
            return PlanDecision(reason=objection, keeps=True)
        return PlanDecision(plans, shown, warning=warning)

    @property
    def _keeps_gaps(self) -> bool:
        """Return whether plans leave out what this process's framework has idle memory for."""
        return self._options.save_directory is None and self._options.budget is None

    def _note_first(self, iterations: list[Iteration], steady: Steady) -> None:
        self._first.note(iterations, steady, self._recorder.tags, self._meta_of(steady))

    def _meta_of(self, steady: Steady) -> ProfileMeta:
        return self._state.meta({"steady": steady.kind, "found": steady.explanation})
