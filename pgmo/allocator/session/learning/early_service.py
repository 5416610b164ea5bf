"""Serves a program's iterations while they are recorded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgmo.allocator import tuning
from pgmo.allocator.plans.plan_set import PlannedProfile, PlanSet
from pgmo.allocator.session.learning.credit import LessonCredit
from pgmo.allocator.session.learning.early_plan import from_both, from_single, lasting_sizes
from pgmo.allocator.session.learning.lessons import are_far_apart, is_another_program
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics
from pgmo.allocator.session.threads.boundary import uninterrupted
from pgmo.errors import AdapterError
from pgmo.profiler.recording import Iteration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EarlyService:
    """The plan of a program's first iterations, which serves until a recorded one takes over.

    Args:
        state: where the session stands.
        plans: those that serve.
        recorder: goes on recording.

    Attributes:
        apart: iterations that were far apart from those that followed, as a prompt is from tokens.
    """

    def __init__(self, state: SessionState, plans: PlanSet, recorder: Recorder) -> None:
        self._state = state
        self._plans = plans
        self._recorder = recorder
        self._credit = LessonCredit()
        self._plan: PlannedProfile | None = None
        self._fixed: NDArray[np.int64] | None = None  # sizes that all iterations have
        self._guessed = False  # whether nothing is known yet of how sizes vary
        self._latest: Iteration | None = None  # what the plan was made of
        self._gave_up = False
        self.apart: list[Iteration] = []

    @property
    def others(self) -> list[PlannedProfile]:
        """The plans that serve, without this one: those of recordings."""
        return [one for one in self._plans.all if one is not self._plan]

    def end(self) -> None:
        """A recorded plan takes over."""
        self._plan = self._latest = None
        self._gave_up = False
        self.apart = []

    def serve(self, iterations: Sequence[Iteration], statistics: IterationStatistics) -> None:
        """Serves the next iteration from a plan of the first ones.

        No iteration need be like the first, so a plan that is made of it may be wrong. That costs
        nothing only where memory comes when it is touched. One block of the framework's would be
        there beside what its cache holds from that iteration. With pages a short run would take
        more than it does in windows: an arena comes on top of the holes that these have left.
        Within a budget no plan is made either: what is to be spilled is known when the whole lives
        of all blocks are.

        Args:
            iterations: all that were recorded, in order; the last one has just ended.
            statistics: of that.
        """
        options, latest = self._state.options, iterations[-1]
        if options.record_only or options.budget is not None:
            return
        if not self._state.adapter.lazy or self.others or self._gave_up:
            return
        rate = statistics.hit_bytes_rate
        if self._recorder.iterations > tuning.EARLY_ITERATIONS:
            if self._plan and rate < tuning.WORTHWHILE_SHARE:
                self._drop()
            return
        if self._plan and rate >= tuning.EARLY_SHARE and not self._guessed:
            return
        # Bounded, also where iterations are cut short again and again, and never for one so long
        # that other threads would fill the next one while it is planned.
        if not self._credit.spend(len(latest)):
            return
        if self._costs_more(latest, rate):
            self._gave_up = True  # until there is a recorded one
            self._drop()
            return
        plan = self._make(iterations)
        if plan is not None:
            self._install(plan)

    def _costs_more(self, latest: Iteration, rate: float) -> bool:
        """Whether iterations take turns, so that each would touch an arena that the next leaves.

        An arena stays resident, and what it does not serve comes on top of it. The first plan is of
        an iteration like no other; but when one that was made of a later iteration does not serve
        the next, nor does either's length explain it, another one is as likely to be wrong.
        """
        if not self._plan or self._recorder.iterations <= 2:
            return False
        poor = rate < tuning.WORTHWHILE_SHARE
        return poor and is_another_program(self._plan, latest)

    def _make(self, iterations: Sequence[Iteration]) -> PlannedProfile | None:
        state, number, latest = self._state, self._recorder.iterations, iterations[-1]
        planning, tags = state.planning, self._recorder.tags
        if number == 1:
            self._fixed = lasting_sizes(latest, tags)
        # Not with the first one: it is tagged, and where a script is run as it is, it begins late.
        if self._plan and number > 2:
            both = from_both(self._plan, latest, planning)
            if both is not None:
                self._guessed = False
                return both
        if self._plan and self._latest is not None and are_far_apart(self._plan, latest):
            self.apart.append(self._latest)
        self._latest, self._guessed = latest, self._fixed is not None
        before = iterations[-2] if len(iterations) > 1 else None
        meta = state.meta({"found": "a single iteration"})
        return from_single(latest, tags, meta, planning, self._fixed, before)

    def _install(self, plan: PlannedProfile) -> None:
        with uninterrupted():  # else a plan would be there that counts as one of a recording
            try:
                self._plans.install([plan])
            except AdapterError:
                self._drop()
                return
            self._plan = plan
        engine = self._state.adapter.engine
        engine.select_plan(0)
        engine.trust_plans()

    def _drop(self) -> None:
        self._plans.clear()
        self._plan = None
