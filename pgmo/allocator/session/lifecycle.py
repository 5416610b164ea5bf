"""State machine of one session. It changes its state at the end of an iteration.

                 iterations repeat, and a plan for them pays
    RECORD ────────────────────────────────────────────────────────▶ REPLAY
     ▲ │ ▲                                                              │
     │ │ └───────────── iterations diverge from their plans ────────────┘
     │ │
     │ └── no new plan pays, and earlier plans serve too little ─────▶ BACKOFF
     └──── after a while, longer each time ───────────────────────────────┘

    BYPASS: no more plans or recordings.      With a saved plan of iteration 1, REPLAY is first.

In RECORD, earlier plans still serve, even if iterations have diverged from them. Pages or the
framework's allocator serve all other requests, and all requests in BACKOFF and BYPASS. In BACKOFF
and BYPASS, the session adds almost no time to an iteration.

    state       shared state of the parts       plan_finder    makes plans from a recording
    recorder    recording, tags                 installation   decides whether plans pay
    installer   gives plans to the engine       given_plans    saved plans
                                                joined_steps   steps per iteration
"""

from dataclasses import replace

from pgmo.allocator import heuristics
from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.plans.directory import prepare_directory
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session import advice
from pgmo.allocator.session.installer import Installer
from pgmo.allocator.session.learning.backoff import Backoff, DivergenceCounter
from pgmo.allocator.session.learning.given_plans import GivenPlans
from pgmo.allocator.session.learning.installation import InstallationRule
from pgmo.allocator.session.learning.joined_steps import JoinedSteps
from pgmo.allocator.session.learning.plan_finder import PlanDecision, PlanFinder
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.allocator.session.statistics_collector import StatisticsCollector
from pgmo.allocator.session.verdict.growth import find_growth
from pgmo.allocator.session.verdict.judge import judge
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.errors import AdapterError, PgmoError, PlanError
from pgmo.profiler.iterations.linear_profile import linear_profile
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import split

_NO_LIMIT = 1 << 62
_RECORD_ONLY = "the session was opened with record_only"


class Lifecycle:
    """State machine of one session."""

    def __init__(self, adapter: Adapter, options: Options) -> None:
        self.state = SessionState(adapter, options)
        self.collector = StatisticsCollector(adapter.engine)
        self._adapter = adapter
        self._options = options
        self._engine = adapter.engine
        self._recorder = Recorder(self.state)
        self._installer = Installer(self.state, self._recorder)
        self._plans = self._installer.plans
        self._given = GivenPlans(self.state)
        self._rule = InstallationRule(self.state)
        self._finder = PlanFinder(self.state, self._recorder, self._installer, self._rule)
        self._serves_first = False  # whether a saved plan serves the first iteration now
        self._joined = JoinedSteps(adapter.engine, options)
        limits = heuristics.current
        self._backoff = Backoff(limits.shortest_wait, limits.longest_backoff)
        self._growth = Backoff(1, limits.longest_backoff)
        self._divergence = DivergenceCounter(limits.confirmations)

    # --- start and stop -------------------------------------------------------------------------

    def start(self) -> None:
        """Start in REPLAY with a saved plan of the first iteration, else in RECORD or BYPASS."""
        self._engine.reset_peaks()
        self._engine.forget_levels()
        if self._options.save_directory is not None:
            prepare_directory(self._options.save_directory)
        if self._options.arena_is_optional and self._adapter.delegation_reason:
            self._installer.give_up(self._adapter.delegation_reason)
            return
        self._given.load()
        if not self._begin_first():
            self._record()

    def _begin_first(self) -> bool:
        """Begin to serve the first iteration from a saved plan; return whether a plan serves it."""
        self._installer.opening = opening = self._given.opening
        if opening is None:
            return False
        from pgmo.allocator.plans.openings import openings

        steady = self._given.plans
        possible = openings(opening.plan, [planned.plan for planned in steady])
        try:
            self._plans.install_openings(possible, steady)
        except (AdapterError, PlanError) as error:
            self.state.warn(f"the given plan cannot serve the first iteration: {error}")
            self._plans.clear()
            return False
        self._serves_first = True
        self.state.phase = Phase.REPLAY
        self._adapter.advise(advice.while_replaying(opening.plan, None))
        return True

    def stop(self) -> None:
        """Stop serving. The arenas are freed with their last blocks."""
        self._recorder.stop()
        self._plans.clear()
        self.collector.close()
        self.state.phase = Phase.CLOSED

    # --- results --------------------------------------------------------------------------------

    def summary(self, *, with_verdict: bool) -> Summary:
        """Return the totals of an open session, with a verdict if `with_verdict`."""
        state = self.state
        managed, card_room = self._adapter.unified_memory
        growth = find_growth(*self._engine.live_levels())
        summary = self.collector.summary(
            state.plan,
            plans=len(self._plans),
            replans=state.replans,
            notes=tuple(note for note in (*state.notes, self._adapter.note) if note),
            waits=state.waits,
            steps=self._joined.steps,
            managed=managed,
            card_room=card_room,
            growth=None if growth is None else replace(growth, origin=state.persistent_origin),
        )
        if not with_verdict:
            return summary
        why = state.gave_up
        if not why and self._options.record_only:
            why = _RECORD_ONLY
        return replace(summary, verdict=judge(summary, self._adapter.baseline(), why))

    def recording(self) -> Profile | None:
        """Return the current recording as one profile that does not repeat; None if it is empty."""
        meta = self.state.meta({"found": "all requests up to the query"})
        return linear_profile(self._engine.events(), self._recorder.tags, meta)

    # --- the end of an iteration ----------------------------------------------------------------

    def end_iteration(self, complete: bool) -> None:
        """End an iteration. An incomplete one gets no plan. A forked child must not call this."""
        try:
            self._end_iteration(complete)
        except PgmoError:
            raise
        except BaseException:
            # Usually Ctrl-C during planning. Plans are exchanged atomically, so existing plans
            # still serve. The recording may have ended without a plan, so a new recording begins.
            if self.state.phase is Phase.RECORD:
                self._record()
            raise
        if self.state.phase is Phase.REPLAY and self.state.plan is not None:
            self._adapter.after_replay(self.state.plan)

    def _end_iteration(self, complete: bool) -> None:
        if complete and self._engine.pass_iteration():
            return
        self._catch_up()
        self._engine.end_iteration()
        plan = self._engine.ended_plan if self._serves_first or len(self._plans) else -1
        grown = self._engine.take_grown()
        phase = self.state.phase
        statistics = self.collector.count(phase, plan)
        if phase is Phase.BYPASS:
            return
        self._plans.end_iteration()
        self._installer.followed(plan, self.collector.iterations)
        if not len(self._plans):
            self._rule.served_by_windows(statistics.recurring_moves)
        if self._serves_first:
            self._after_first(statistics)
        elif phase is Phase.REPLAY:
            self._after_replay(statistics, complete, grown)
        elif phase is Phase.BACKOFF:
            self._after_pause()
        elif complete:
            self._after_recorded(statistics)
        else:
            self._record()

    def _catch_up(self) -> None:
        """Count the iterations that the engine ended by itself."""
        passed, moved, followed = self.collector.take_passed()
        for plan, iteration in followed.items():
            self._installer.followed(plan, iteration)
        if not passed:
            return
        if self.state.phase is Phase.REPLAY:
            self._growth.forget()
        else:
            self._backoff.count(passed)
            self._rule.served_by_windows(moved, passed)

    # --- RECORD ---------------------------------------------------------------------------------

    def record_anew(self) -> None:
        """Drop all plans and record again, if in RECORD, or in REPLAY after the first iteration."""
        if self.state.phase in (Phase.RECORD, Phase.REPLAY) and not self._serves_first:
            self._plans.clear()  # `_rule` must not count this removal
            self._record()

    @property
    def joins_steps(self) -> bool:
        """Return whether iterations now consist of several steps."""
        return self._joined.steps > 1

    def count_each_step(self) -> None:
        """Make each step an iteration from now on; drop plans of joined steps.

        `pgmo.phase` and the turns of sessions and threads begin and end between single steps.
        """
        self._joined.allowed = False
        if self.joins_steps:
            self._joined.separate()
            self.record_anew()

    def _record(self, length: int = 0) -> None:
        """Record at most `length` iterations (0: the usual number); existing plans still serve."""
        self.state.phase = Phase.RECORD
        self._recorder.start(
            self.collector.iterations,
            has_plans=len(self._plans) > 0,
            length=length,
            tags=not self._given.pending,
        )

    def _after_recorded(self, statistics: IterationStatistics) -> None:
        if self._engine.recording_truncated:
            if self.joins_steps:
                self.count_each_step()  # a single step may be short enough
                return
            self._installer.give_up("the iterations have more requests than can be recorded")
            return
        self._recorder.next(statistics)
        may_join = self._joined.allowed and not len(self._plans) and not self._given.pending
        if may_join and self._joined.join(self._recorder.period):
            self._recorder.forget_tags()
            self._recorder.forget_length()  # joined steps do not alternate
            self._rule.pause = None
            self._record()
            return
        last = self._recorder.is_complete
        if self._given.pending and not self._try_given(last):
            return
        if last and not self._recorder.requested:
            self._installer.give_up("the recorded iterations allocate nothing on this device")
        elif last or self._finder.may_find_early:
            decision = self._finder.find(last)
            if decision is None:
                return
            if may_join and decision.reason and self._recorder.extend_for_period():
                return
            self._follow(decision)

    def _try_given(self, last: bool) -> bool:
        """Replay given plans that the latest iteration follows; return whether they are refused."""
        latest = split(self._engine.events())[-1]
        if self._given.fit(latest):
            self._installer.opening = self._given.opening
            self._replay(self._given.plans, 0)
        elif last:
            self._given.refuse(latest)
            self._installer.opening = None  # it belongs to another program
            return True
        return False

    def _follow(self, decision: PlanDecision) -> None:
        """Act on the decision about a recording: replay, back off, or enter BYPASS."""
        if decision.plans:
            self._replay(decision.plans, decision.number)
            self._installer.save()
            if decision.warning and self._is_in(Phase.REPLAY):
                self.state.warn(decision.warning)
        elif not decision.reason:
            self._recorder.stop()
            self.state.phase = Phase.BYPASS
            self._adapter.advise(advice.without_plan(_RECORD_ONLY, pages=self._adapter.pages))
        # Earlier plans stay if they serve enough, or if an option requires a plan.
        elif (
            decision.keeps
            and len(self._plans)
            and (self._recorder.is_served or self._options.needs_any_plan)
        ):
            self._recorder.stop()
            self.state.phase = Phase.REPLAY
        else:
            self._back_off(decision.reason)

    # --- BACKOFF --------------------------------------------------------------------------------

    def _back_off(self, reason: str) -> None:
        """Begin a BACKOFF: remove all plans and stop recording."""
        self._recorder.stop()
        self._joined.separate()
        if len(self._plans):
            self._rule.remove()
            self._plans.clear()
        self._rule.begin_pause()
        self._backoff.begin()
        self.state.waits = reason
        self.state.phase = Phase.BACKOFF
        self._let_pause_pass()
        self._adapter.advise(advice.without_plan(reason, pages=self._adapter.pages))

    def _after_pause(self) -> None:
        self._backoff.count(1)
        if self._backoff.left:
            self._let_pause_pass()
        else:
            self._record()

    def _let_pause_pass(self) -> None:
        """Let the engine end all iterations of the pause except the last by itself."""
        self.collector.passing = Phase.BACKOFF
        self._engine.let_pass(self._backoff.left - 1, again=False, anything=True)

    # --- REPLAY ---------------------------------------------------------------------------------

    def _replay(self, plans: list[PlannedProfile], number: int) -> None:
        """Serve from these plans. If they do not fit, keep the previous plans, or give up."""
        self._recorder.stop()
        self._installer.install(plans, number)
        if self._is_in(Phase.REPLAY):
            self._backoff.forget()
            self._rule.pause = None
            self._recorder.forget_length()
            self.state.waits = ""

    def _after_first(self, statistics: IterationStatistics) -> None:
        """Replay the given plans if the first iteration followed them; otherwise record.

        The plan needs only half of the iteration's requests: the sequence length may be new, and a
        program that resumes from a checkpoint allocates no optimizer state.
        """
        self._serves_first = False
        if statistics.known_rate >= heuristics.current.worthwhile_share:
            self._given.pending = False
            self._replay(self._given.plans, 0)
            return
        self._plans.set_aside()
        self._record()

    def _after_replay(
        self, statistics: IterationStatistics, complete: bool, grown: list[tuple[int, int]]
    ) -> None:
        followed = complete and self._judge(statistics, grown)
        if not self._is_in(Phase.REPLAY):
            return
        if not self._engine.has_arena:  # it was freed because memory ran out
            self._replay(self._plans.all, statistics.plan)
        elif complete:
            self._let_pass(statistics, followed)

    def _judge(self, statistics: IterationStatistics, grown: list[tuple[int, int]]) -> bool:
        """Return whether the plan was followed; if not, widen the plan or count a divergence."""
        is_known = statistics.known_rate >= heuristics.current.known_share
        if grown and is_known:
            self._grow(statistics.plan, grown)
            return False
        self._growth.forget()
        served = statistics.planned_bytes_rate
        if self.state.plan is not None and served < advice.GOOD_SHARE:
            text = advice.while_replaying(self.state.plan, self.state.profile, statistics)
            self._adapter.advise(text)
        if is_known and served >= heuristics.current.worthwhile_share:
            return True
        if length := self._divergence.count(self.collector.iterations):
            self.state.warn(
                "iterations do not follow their plan (in the last one, "
                f"{statistics.known_rate:.0%} of the requests were planned, and slots served "
                f"{served:.0%} of the bytes; blocks planned without a slot do not count): "
                "recording again"
            )
            self.state.replans += 1
            self._record(length)
        return False

    def _grow(self, plan: int, grown: list[tuple[int, int]]) -> None:
        """Widen a plan for larger requests; while sizes keep rising, at growing intervals."""
        self._growth.count(1)
        if not self._growth.left:
            self._growth.begin()
            self.state.replans += 1
            self._installer.widen(plan, grown)

    def _let_pass(self, statistics: IterationStatistics, followed: bool) -> None:
        """Let the engine end iterations that follow their plan, unless plans have pending work.

        If the latest iteration followed its plan, had its arena and needed no driver calls, the
        engine also ends iterations that repeat the latest iteration with its misses.
        """
        if not self._plans.has_no_pending_work:
            return
        needed_calls = statistics.misses["no_arena"] or any(statistics.driver_calls.values())
        self.collector.passing = Phase.REPLAY
        self._engine.let_pass(_NO_LIMIT, again=followed and not needed_calls, anything=False)

    def _is_in(self, phase: Phase) -> bool:
        """Return whether the session is in this phase now. Any call may change the phase."""
        return self.state.phase is phase
