"""What a session does at the end of each iteration: record on, plan, replay, record again.

Kept apart from `session.py`, which is about how a program uses it, and from the frameworks.
"""

import os
import warnings
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from pgmo import _core
from pgmo.allocator.conversions import profile_of, requests_of
from pgmo.allocator.options import Options
from pgmo.allocator.plan_set import Framework, Planned, PlanSet, check_replayable
from pgmo.allocator.statistics import IterationStatistics, Phase, Summary
from pgmo.allocator.store import prepare_directory, save
from pgmo.allocator.tally import Tally
from pgmo.errors import AdapterError, FileError
from pgmo.packing.plan import Plan
from pgmo.packing.portfolio import plan as make_plan
from pgmo.profiler.lifetimes import build_profile
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import Iteration, split
from pgmo.profiler.step_finder import Steady, best_effort, compare, find_all
from pgmo.profiler.tags import Tagger
from pgmo.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

_FOLLOWERS = 2
"""Complete iterations after the reference before it is planned: they show what is freed later."""

_MOST_UNSTEADY = 2
"""Recordings without agreement after which a program is taken for one that never repeats."""


_GROWTHS_WITHOUT_HEADROOM = 3
"""Times that a plan is made for just the sizes seen; later ones leave a quarter more."""

_MOST_NOTES = 20
"""Notes that a summary keeps."""

_MOST_RENEWALS = 2
"""Fresh arenas taken because others were held: each may cost as much memory again."""


class Lifecycle:
    """The state machine of one session. Sizes in bytes throughout.

    Example:
        >>> lifecycle = Lifecycle(torch_cpu(), Options())  # doctest: +SKIP
        >>> lifecycle.start()  # doctest: +SKIP
    """

    def __init__(self, framework: Framework, options: Options) -> None:
        self.framework = framework
        self.options = options
        self.phase = Phase.RECORD
        self.profile: Profile | None = None
        self.plan: Plan | None = None
        self.saved: tuple[Path, ...] = ()
        self._engine = framework.engine
        self._plans = PlanSet(framework, options.max_plans)
        self.tally = Tally(self._engine)
        self._tagger = ExitStack()
        self._tags: Tagger | None = None
        self._recorded = 0
        self._poor = 0  # grows with replayed iterations that do not follow their plan
        self._patience = options.patience
        self._replans = 0
        self._growths = 0
        self._sparing = False
        self._process = os.getpid()
        self._held = 0  # successive iterations with many slots held by other blocks
        self._renewals = 0
        self._unsteady = 0  # plans made although no two iterations agreed
        self._notes: list[str] = []

    # --- start, stop, and each iteration --------------------------------------------------------

    def start(self) -> None:
        """Begins with recording, or with a saved plan that is being verified.

        Raises:
            FileError, PlanError: when the plan given cannot be read or replayed.
        """
        self._engine.reset_peaks()
        if self.options.save_directory is not None:
            prepare_directory(self.options.save_directory)
        given = self.options.plan
        if given is not None:
            self.plan = given if isinstance(given, Plan) else Plan.load(given)
            check_replayable(self.plan, self.framework.alignment)
            self.phase = Phase.VERIFY
        self._start_recording()

    def stop(self) -> None:
        """Serves nothing from now on; the arena goes back when its last block has died."""
        self._stop_recording()
        self._plans.clear()
        self.phase = Phase.CLOSED

    def end_iteration(self, complete: bool) -> None:
        """Ends an iteration; one that an exception cut short is not learned from."""
        if os.getpid() != self._process:
            return  # a forked child, for which the engine is in bypass
        # Before the engine moves on to the plan that it expects next.
        plan = self._engine.selected_plan if len(self._plans) else -1
        grown = self._engine.take_grown()
        self._engine.end_iteration()
        statistics = self.tally.count(self.phase, plan)
        if self.phase is Phase.BYPASS:
            return
        if self.phase is Phase.REPLAY:
            if complete:
                self._after_replay(statistics, grown)
        elif not complete:
            self._start_recording()
        else:
            self._recorded += 1
            self._tagger.close()
            if self.phase is Phase.VERIFY:
                self._after_verify()
            else:
                self._after_record()

    # --- the three phases -----------------------------------------------------------------------

    def _after_record(self) -> None:
        if self._engine.recording_truncated:
            self._give_up("an iteration has more requests than can be recorded")
            return
        iterations = split(self._engine.events())
        last = self._recorded >= self.options.max_record_iterations
        steady = [one for one in find_all(iterations) if last or one.followers >= _FOLLOWERS]
        new = [one for one in steady if not self._is_planned(iterations[one.reference])]
        if new:
            self._learn(iterations, new)
        elif last and steady:
            self._stop_recording()  # nothing here that the plans do not cover
            self.phase = Phase.REPLAY
            self._poor = 0
        elif last:
            self._learn_anyway(iterations)

    def _learn_anyway(self, iterations: list[Iteration]) -> None:
        """Plans from what there is, although no two iterations agree."""
        steady = best_effort(iterations)
        if steady is None:
            self._give_up("the iterations allocate nothing on this device")
            return
        self._unsteady += 1
        self._warn(
            f"{self._recorded} iterations were recorded and no two agree "
            f"({steady.explanation}), so the plan will serve only part of the requests"
        )
        self._learn(iterations, [steady])

    def _is_planned(self, reference: Iteration) -> bool:
        """Whether a plan has this structure, for sizes as large as these."""
        return any(
            len(planned.plan) == len(reference)
            and bool(np.all(planned.plan.size >= reference.size))
            and compare(requests_of(planned.plan), reference).kind != "none"
            for planned in self._plans.all
        )

    def _learn(self, iterations: list[Iteration], found: list[Steady]) -> None:
        """Plans from a recording, and replays."""
        tags = self._tags.tags if self._tags else ()
        profiles = [
            (build_profile(iterations, steady, tags, self._meta(steady)), steady)
            for steady in reversed(found)  # the newest last: its plan is the one that is shown
        ]
        self._stop_recording()
        self._tags = None
        useful = [(profile, steady) for profile, steady in profiles if np.any(profile.turns > 0)]
        if not useful:
            self.profile = profiles[-1][0]
            self._give_up("no block of an iteration is ever freed, so nothing can be planned")
            return
        for profile, steady in useful:
            self._adopt(profile, iterations[steady.reference])
            if self.phase is Phase.BYPASS:
                return

    def _adopt(self, profile: Profile, reference: Iteration) -> None:
        """Puts a new profile in the place of one of the same structure, or beside the others."""
        for number, planned in enumerate(self._plans.all):
            match = compare(requests_of(planned.plan), reference)
            if match.kind == "none":
                continue
            if len(planned.plan.size) == len(profile):
                profile = _envelope(profile, planned.plan)
            self._use(profile, number)
            return
        self._use(profile, None)

    def _use(self, profile: Profile, place: int | None) -> None:
        """Plans a profile and installs the plan, in the place of another or beside the others."""
        plan = make_plan(profile, solver=self.options.solver, alignment=self.framework.alignment)
        if self._install(Planned(plan, profile), place):
            self._save(len(self._plans) - 1 if place is None else place)

    def _install(self, planned: Planned, place: int | None) -> bool:
        try:
            if place is None:
                self._plans.add(planned)
            else:
                self._plans.replace(place, planned)
        except AdapterError as error:
            self._give_up(f"the arena of {planned.plan.arena} bytes could not be had: {error}")
            return False
        self.profile, self.plan = planned.profile, planned.plan
        self.phase = Phase.REPLAY
        self._poor = 0
        self._engine.reset_peaks()
        return True

    def _after_replay(self, statistics: IterationStatistics, grown: list[tuple[int, int]]) -> None:
        if grown and self._grow(grown, statistics):
            return
        strange = bool(grown) or statistics.known_rate < self.options.min_hit_rate
        self._free_slots(statistics)
        # Leaking, for structures may take turns and one of them be strange each time; an evaluation
        # now and then is not worth a plan.
        self._poor = self._poor + 2 if strange else max(0, self._poor - 1)
        if self._poor < 2 * self._patience or self._unsteady > _MOST_UNSTEADY:
            return
        if self._unsteady == _MOST_UNSTEADY:
            self._unsteady += 1
            self._warn("this program's iterations never repeat; it is not recorded again")
            return
        self._warn(
            "iterations do not follow their plan (of the last one's requests "
            f"{statistics.known_rate:.0%} were expected): recording again"
        )
        self._replans += 1
        # Programs with more structures than plans would be recorded for ever.
        self._patience *= 2
        # Served from the old plan meanwhile, as far as it goes: memory must not rise for this.
        self.phase = Phase.RECORD
        self._start_recording()

    def _free_slots(self, statistics: IterationStatistics) -> None:
        """Takes a fresh arena when blocks that never die hold many slots of this one.

        Such a block came unplanned at the size of a planned one: state that was born late, a copy
        of the model. To record again would not help, for the requests are the planned ones.
        """
        held = statistics.misses["occupied"] + statistics.misses["late"]
        share = max(held / max(1, statistics.requests), 1 - statistics.hit_bytes_rate)
        much = held and share > 1 - self.options.min_hit_rate
        self._held = self._held + 1 if much else 0
        if self._held < 2 * self.options.patience or self._renewals >= _MOST_RENEWALS:
            return
        self._held = 0
        self._renewals += 1
        held_slots = f"blocks that were not planned hold the slots of {held} requests"
        try:
            self._plans.renew_arena()
        except AdapterError as error:
            self._warn(f"{held_slots}, and there is no memory for a fresh arena: {error}")
        else:
            self._warn(
                f"{held_slots} of an iteration; a fresh arena was taken, and the old one is "
                "returned when they are freed"
            )

    def _grow(self, grown: list[tuple[int, int]], statistics: IterationStatistics) -> bool:
        """Plans again from the envelope of the sizes seen: section 4 of Sekiyama et al. 2018."""
        number = statistics.plan
        planned = self._plans.all[number]
        missing = statistics.skipped / len(planned.plan)
        if min(statistics.known_rate, 1 - missing) < self.options.min_hit_rate:
            return False  # another structure, whose sizes say nothing about this one
        profile = planned.profile or profile_of(planned.plan)
        size = profile.size.copy()
        for ordinal, larger in grown:
            size[ordinal] = max(size[ordinal], larger)
        self._replans += 1
        self._growths += 1
        if self._growths > _GROWTHS_WITHOUT_HEADROOM:
            # Lengths that rise step by step would be planned again at every step.
            size = np.where(profile.varying, size + size // 4, size)
        self._use(profile.widened(size), number)
        return True

    def _after_verify(self) -> None:
        """Serves from the plan given as soon as an iteration has followed it.

        Not before: the first iteration's extra requests (optimizer state) would be taken for
        planned ones of the same size, and these blocks would hold their slots for good.
        """
        assert self.plan is not None
        if self._engine.recording_truncated:
            self._give_up("an iteration has more requests than can be recorded")
            return
        iterations = split(self._engine.events())
        match = compare(requests_of(self.plan), iterations[-1])
        if match.kind != "none":
            self._stop_recording()
            self._install(Planned(self.plan, None), None)
        elif self._recorded >= self.options.max_record_iterations:
            self._warn(
                f"the plan given does not match this program ({match.explanation}); "
                "making a new one instead"
            )
            self.plan = None
            self.phase = Phase.RECORD
            self._after_record()

    # --- recording ------------------------------------------------------------------------------

    def _start_recording(self) -> None:
        self._tagger.close()
        self._tags = None
        if self.options.tags and self.phase is Phase.RECORD:
            # In the first recorded iteration only: it slows the program down, and adds requests of
            # its own, so that iteration is not planned.
            self._tags = self._tagger.enter_context(Tagger(_core.set_tag))
        self._recorded = 0
        if not len(self._plans) and not self._sparing:
            self._sparing = True
            self.framework.spare_memory(True)
        self._engine.start_recording()
        self.tally.recording_begins()

    def _stop_recording(self) -> None:
        self._tagger.close()
        if self._sparing:
            self._sparing = False
            self.framework.spare_memory(False)
        self._engine.stop_recording()
        self._engine.forget_recording()

    # --- telling --------------------------------------------------------------------------------

    def summary(self) -> Summary:
        """What has been done so far."""
        notes = tuple(self._notes)
        return self.tally.summary(self.plan, len(self._plans), self._replans, notes)

    def _meta(self, steady: Steady) -> ProfileMeta:
        return ProfileMeta(
            framework=self.framework.name,
            framework_version=self.framework.version,
            pgmo_version=__version__,
            device=self.framework.device,
            model=self.options.model_name,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            notes={"steady": steady.kind, "found": steady.explanation},
        )

    def _save(self, number: int) -> None:
        """Writes the plan with this number and its profile."""
        folder = self.options.save_directory
        if folder is None:
            return
        try:
            files = save(self._plans.all[number], folder, self.options.model_name, number)
        except FileError as error:
            self._warn(f"the plan could not be saved: {error}")  # training goes on
            return
        self.saved = tuple(dict.fromkeys((*self.saved, *files)))

    def _give_up(self, reason: str) -> None:
        """Delegates for the rest of the session: there is nothing to gain."""
        self._stop_recording()
        self._plans.clear()
        self.phase = Phase.BYPASS
        self._warn(f"{reason}; the framework's own allocator serves everything")

    def _warn(self, note: str) -> None:
        if note not in self._notes:
            self._notes = [*self._notes, note][-_MOST_NOTES:]
        warnings.warn(f"pgmo: {note}", stacklevel=2)


def _envelope(profile: Profile, plan: Plan) -> Profile:
    """Another shape of what is planned already: one profile for both, with the larger sizes."""
    varying = profile.varying | plan.varying | (profile.size != plan.size)
    return replace(profile.widened(np.maximum(plan.size, profile.size)), varying=varying)
