"""What a session does at the end of each iteration: record on, plan, replay, record again.

    state             where it stands           recorder     recording, tags
    installer         plans into the engine     learning     lessons, plans that do not pay yet
    first_iteration   the opening               account      what has been done so far
    lifecycle         which of them comes next

Kept apart from `session.py`, which is about how a program uses it, and from the frameworks.
"""

import os

import numpy as np

from pgmo.allocator import tuning
from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.plans.installer import Installer
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.plans.store import prepare_directory
from pgmo.allocator.session import advice
from pgmo.allocator.session.account import Account
from pgmo.allocator.session.learning.first_iteration import FirstIteration
from pgmo.allocator.session.learning.given_plans import GivenPlans
from pgmo.allocator.session.learning.lessons import is_planned
from pgmo.allocator.session.learning.recorded_plans import Recorded
from pgmo.allocator.session.learning.replay_monitor import ReplayMonitor
from pgmo.allocator.session.learning.strangeness import Strangeness
from pgmo.allocator.session.learning.waiting import Waiting
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.allocator.session.statistics_collector import StatisticsCollector
from pgmo.errors import PgmoError
from pgmo.profiler.iterations.lifetimes import build_profile
from pgmo.profiler.iterations.step_finder import Steady, best_effort, find_all
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import Iteration, split


class Lifecycle:
    """The state machine of one session. Sizes in bytes throughout.

    Example:
        >>> lifecycle = Lifecycle(torch_cpu(), Options())  # doctest: +SKIP
        >>> lifecycle.start()  # doctest: +SKIP
    """

    def __init__(self, adapter: Adapter, options: Options) -> None:
        self.state = SessionState(adapter, options)
        self.collector = StatisticsCollector(adapter.engine)
        self._adapter = adapter
        self._options = options
        self._engine = adapter.engine
        self._recorder = Recorder(self.state)
        self._installer = Installer(self.state, self._recorder)
        self._monitor = ReplayMonitor(self.state, self._installer, self._recorder)
        self._first = FirstIteration(self.state, self._installer)
        self._waiting = Waiting(self.state, self._installer, self._recorder)
        self._plans = self._installer.plans
        self.account = Account(
            self.state, self.collector, self._recorder, self._plans, self._waiting
        )
        self._strange = Strangeness(options.patience)
        self._given = GivenPlans(self.state, adapter.alignment)
        self._process = os.getpid()

    # --- start, stop, and each iteration --------------------------------------------------------

    def start(self) -> None:
        """Begins with recording, with a saved plan, or with a profile.

        Raises:
            FileError, PlanError: when the plan or profile given cannot be read or replayed.
        """
        self._engine.reset_peaks()
        if self._options.save_directory is not None:
            prepare_directory(self._options.save_directory)
        if self._options.arena_is_optional and self._adapter.steps_aside:
            self._installer.give_up(self._adapter.steps_aside)
            return
        if self._given.load():
            plans = self._given.plans
            opening = plans[0].plan.opening if self._given.may_open else None
            if opening is not None and self._first.begin(opening, plans):
                return
            self.state.phase = Phase.VERIFY
        self._start_recording()

    def stop(self) -> None:
        """Serves nothing from now on; the arena goes back when its last block has died."""
        self._recorder.stop()
        here = os.getpid() == self._process  # a forked child leaves the file to its parent
        if here and self._monitor.unsaved and self._still(Phase.REPLAY):
            self._installer.save()
        self._plans.clear()
        self.collector.close()
        self.state.phase = Phase.CLOSED

    @property
    def opening(self) -> Profile | None:
        """The first iteration, if it was recorded to be kept."""
        return self._first.profile

    def end_iteration(self, complete: bool) -> None:
        """Ends an iteration; one that an exception cut short is not learned from.

        Not to be called in a forked child, for which the engine is in bypass.
        """
        try:
            self._after_iteration(complete)
        except PgmoError:
            raise
        except BaseException:
            # Ctrl-C, most of all while planning. Plans are not exchanged by halves, so they may go
            # on serving; but a recording may have ended that nobody has learned from.
            if self._still(Phase.WAIT):
                self._waiting.end()
                self.state.phase = Phase.RECORD
            if self.state.phase in (Phase.RECORD, Phase.VERIFY):
                self._start_recording()
            raise

    def _after_iteration(self, complete: bool) -> None:
        if complete and self._engine.pass_iteration():
            return
        state = self.state
        self._catch_up()
        self._engine.end_iteration()
        plan = self._engine.ended_plan if self._first.running or len(self._plans) else -1
        grown, stretched = self._engine.take_grown(), self._engine.take_stretched() > 0
        statistics = self.collector.count(state.phase, plan)
        if state.phase is Phase.BYPASS:
            return
        self._plans.end_iteration()
        self._installer.followed(plan, self.collector.iterations)
        if self._first.running:
            self._after_first(statistics)
        elif state.phase is Phase.REPLAY:
            if complete:
                self._after_replay(statistics, grown, stretched)
            if not self._engine.has_arena and self._still(Phase.REPLAY):
                self._install(self._plans.all, plan)  # it was given back, as memory had run out
            if complete and self._still(Phase.REPLAY):
                self._let_pass(statistics)
        elif state.phase is Phase.WAIT:
            self._waiting.costs.without_plan(statistics.driver_calls)
            if complete and self._waiting.learn(statistics):
                self._install(*self._waiting.end())
        elif not complete:
            self._start_recording()
        else:
            # In the first iteration all is new, and much of it comes only once.
            if not len(self._plans) and self.collector.iterations > 1:
                self._waiting.costs.without_plan(statistics.driver_calls)
            self._recorder.next()
            if state.phase is Phase.VERIFY:
                self._after_verify()
            else:
                self._after_record()

    def _let_pass(self, statistics: IterationStatistics) -> None:
        """Has iterations pass from which nothing can be learned, as far as what is known allows.

        An iteration as it was planned passes, and one like the last one if that was all right.
        """
        most = self._monitor.may_pass if self._plans.calm else 0
        if most <= 0:
            return
        expected = statistics.known_rate >= self._options.min_hit_rate
        without = statistics.misses["no_arena"] or any(statistics.driver_calls.values())
        self._engine.let_pass(most, expected and not without, self._monitor.most_bytes)

    def _catch_up(self) -> None:
        """Draws from iterations that have passed what would have been drawn from each."""
        passed = self.collector.take_passed()
        if not passed.iterations:
            return
        for plan, iteration in passed.followed.items():
            self._installer.followed(plan, iteration)
        self._waiting.costs.passed(passed.iterations)
        self._monitor.passed(passed.iterations, passed.requested)
        self._strange.passed(passed.iterations)

    # --- after each phase -----------------------------------------------------------------------

    def _after_first(self, statistics: IterationStatistics) -> None:
        if self._first.end(statistics) and self._given.served(statistics.known_rate):
            self._install(self._given.plans, 0)
            return
        self._plans.set_aside()
        self.state.phase = Phase.VERIFY
        self._start_recording()

    def _after_record(self) -> None:
        if self._engine.recording_truncated:
            self._installer.give_up("an iteration has more requests than can be recorded")
            return
        iterations = split(self._engine.events())
        last = self._recorder.iterations >= self._options.max_record_iterations
        steady = [one for one in find_all(iterations) if last or one.followers >= tuning.FOLLOWERS]
        plans = self._plans.all
        new = [one for one in steady if not is_planned(plans, iterations[one.reference])]
        completing = self._monitor.completing
        if new:
            self._learn(iterations, new)
        elif last and (steady or completing):
            self._recorder.stop()  # nothing here that the plans do not cover
            self.state.phase = Phase.REPLAY
            self._strange.forget()
            kept = [one for one in plans if one is not completing]
            if completing and kept:
                self._install(kept, -1)
            self._monitor.completing = None
        elif last:
            self._learn_anyway(iterations)

    @property
    def _keeps_gaps(self) -> bool:
        """Whether plans leave out what the framework has idle memory for, in this process alone."""
        return self._options.save_directory is None and self._options.budget is None

    def _after_verify(self) -> None:
        """Serves from the plan given as soon as an iteration has followed it.

        Not before: the first iteration's extra requests (optimizer state) would be taken for
        planned ones of the same size, and these blocks would hold their slots for good.
        """
        if self._engine.recording_truncated:
            self._installer.give_up("an iteration has more requests than can be recorded")
            return
        latest = split(self._engine.events())[-1]
        last = self._recorder.iterations >= self._options.max_record_iterations
        if self._given.fit(latest, last):
            self._recorder.stop()
            self._installer.opening = self._given.opening
            self._install(self._given.plans, 0)
        elif last:
            self._given.refuse(latest)
            self._installer.opening = None  # it was another program's
            self.state.phase = Phase.RECORD
            self._after_record()

    def _after_replay(
        self, statistics: IterationStatistics, grown: list[tuple[int, int]], stretched: bool
    ) -> None:
        state, monitor = self.state, self._monitor
        if self._waiting.gives_way(statistics):
            return
        good = monitor.judge(statistics, bool(grown))
        if monitor.objection:
            self._installer.give_up(monitor.objection)
            return
        if not good:
            if monitor.learn(statistics):
                self._after_lesson()
                return
            if state.plan is not None:
                text = advice.while_replaying(state.plan, state.profile, statistics)
                self._adapter.advise(text)
            if monitor.wants_more(statistics):
                self._record_again()
                return
        if good and stretched and monitor.learn(statistics, stretched=True):
            # The engine's plan holds slots where it had them; this one is packed.
            self._after_lesson()
            return
        if good:
            monitor.look(statistics)
        monitor.go_on(good)
        if monitor.grow(grown, statistics):
            self._after_lesson()
            return
        if not monitor.orderly:
            return  # other iterations will not be more alike
        outgrown = bool(grown) and not monitor.expected(statistics)
        strange = outgrown or statistics.known_rate < self._options.min_hit_rate
        if not self._strange.too_often(strange):
            return
        state.warn(
            "iterations do not follow their plan (of the last one's requests "
            f"{statistics.known_rate:.0%} were expected): recording again"
        )
        state.replans += 1
        self._strange.be_more_patient()
        self._record_again()

    def _after_lesson(self) -> None:
        self._strange.forget()
        if self._still(Phase.REPLAY):
            self._waiting.wait_for_room()

    # --- planning from a recording --------------------------------------------------------------

    def _learn_anyway(self, iterations: list[Iteration]) -> None:
        """Plans from what there is, although no two iterations agree."""
        steady = best_effort(iterations)
        if steady is None:
            self._installer.give_up("the iterations allocate nothing on this device")
            return
        self.state.unsteady = True
        recorded = self._recorder.iterations
        self._learn(iterations, [steady])
        if self._still(Phase.REPLAY):
            self.state.warn(
                f"{recorded} iterations were recorded and no two agree "
                f"({steady.explanation}), so the plan will serve only part of the requests"
            )

    def _learn(self, iterations: list[Iteration], found: list[Steady]) -> None:
        """Plans from a recording, and replays."""
        tags = self._recorder.tags
        profiles = [
            (build_profile(iterations, steady, tags, self._meta_of(steady)), steady)
            for steady in reversed(found)  # the newest last: its plan is the one that is shown
        ]
        if self._options.record_only:
            steady = profiles[-1][1]
            self._first.note(iterations, steady, tags, self._meta_of(steady))
            self._recorder.stop()
            self.state.profile, self.state.phase = profiles[-1][0], Phase.BYPASS
            return
        useful = [(profile, steady) for profile, steady in profiles if np.any(profile.turns > 0)]
        if useful and not self._plans.all:
            steady = useful[-1][1]
            self._first.note(iterations, steady, tags, self._meta_of(steady))
        self._recorder.stop()
        if not useful:
            self.state.profile = profiles[-1][0]
            self._installer.give_up(
                "no block of an iteration is ever freed, so nothing can be planned"
            )
            return
        recorded = Recorded(iterations, useful, self._plans.all, self._monitor.completing)
        plans, shown = recorded.plans(self.state.planning, self._keeps_gaps)
        if not plans:
            self._installer.give_up("the framework has idle memory for all that an iteration needs")
            return
        plans, shown = self._installer.within_limit(plans, shown)
        if not self._plans.all and self._waiting.begins(plans, shown, alike=recorded.repeats):
            return
        if self._install(plans, shown):
            self._installer.save()
            self._waiting.wait_for_room()

    def _install(self, plans: list[PlannedProfile], number: int) -> bool:
        installed = self._installer.install(plans, number)
        if self._still(Phase.REPLAY):
            self._waiting.costs.serve()
            self._engine.trust_plans()
            self._strange.forget()
            self._monitor.restart()
        return installed

    def _still(self, phase: Phase) -> bool:
        """Whether the session is in this phase, which other parts may have changed."""
        return self.state.phase is phase

    # --- recording ------------------------------------------------------------------------------

    def _start_recording(self) -> None:
        self._recorder.start(has_plans=len(self._plans) > 0)

    def _record_again(self) -> None:
        """Served from the old plan meanwhile, as far as it goes: memory must not rise for this."""
        self.state.phase = Phase.RECORD
        self._start_recording()

    def _meta_of(self, steady: Steady) -> ProfileMeta:
        return self.state.meta({"steady": steady.kind, "found": steady.explanation})
