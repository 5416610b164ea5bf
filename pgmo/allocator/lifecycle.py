"""What a session does at the end of each iteration: record on, plan, replay, record again.

Kept apart from `session.py`, which is about how a program uses it, and from the frameworks.
"""

import os
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from pgmo import _core
from pgmo.allocator import advice
from pgmo.allocator.conversions import profile_of, requests_of
from pgmo.allocator.framework import Framework
from pgmo.allocator.learning import (
    is_planned,
    learn,
    merge,
    relatives,
    rows_by_address,
    rows_of_iteration,
    rows_of_plan,
    steady_of,
    without_provisional,
)
from pgmo.allocator.openings import openings
from pgmo.allocator.options import Options
from pgmo.allocator.plan_set import Planned, PlanSet, check_replayable, opening_size
from pgmo.allocator.relocation import Parked
from pgmo.allocator.statistics import IterationStatistics, Phase, Summary
from pgmo.allocator.store import find_profile, prepare_directory, save
from pgmo.allocator.tally import Tally
from pgmo.errors import AdapterError, FileError, PlanError
from pgmo.packing.plan import Plan
from pgmo.packing.portfolio import plan as make_plan
from pgmo.profiler.lifetimes import build_profile
from pgmo.profiler.opening import build_opening
from pgmo.profiler.profile import MAX_SIZE, Profile, ProfileMeta, Tag
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
"""Times that a plan is made for just the sizes seen; later ones leave some more."""

_HEADROOM = 1 / 16
"""Share by which later growths are planned larger, at most: twice what it was at the last one."""

_GOOD = 0.999
"""Share of an iteration's bytes from slots from which on there is nothing to learn from it."""

_WORTHWHILE, _RECENT, _MOST_POOR = 0.6, 12, 7
"""Share of bytes from slots below which an arena costs more than it saves; of so many of the last
iterations so many may be below."""

_LONG = 256
"""Good iterations in a row after which the program is not watched any more."""

_MOST_LESSONS, _EARNED = 64, 0.5
"""Plans that may be made from single iterations, in a row; and what a good iteration adds."""

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
        self._plans = PlanSet(framework)
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
        self._opening: Planned | None = None  # to be saved with the plans
        self._followed: dict[tuple[int, int], int] = {}  # the last iteration that did, by plan
        self._in_opening = False
        self._openings: list[Plan] = []
        self._relocation = framework.relocation() if options.compacts(framework) else None
        self._watching = self._watched = False  # whether replayed iterations are recorded
        self._recent: deque[bool] = deque(maxlen=_RECENT)  # whether iterations were worthwhile
        self._good = 0  # successive iterations that were served well
        self._credit = float(_MOST_LESSONS)  # plans that may be made at once
        self._completing: Planned | None = None  # what a single iteration did not show all of
        self._too_large = MAX_SIZE  # bytes of an arena for which there was no memory
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
            self.profile = find_profile(given, self.plan)
            for plan in (self.plan, *self.plan.others):
                check_replayable(plan, self.framework.alignment)
            if self.plan.opening is not None:
                self._opening = Planned(self.plan.opening, None)
                if self._begin_opening(self.plan.opening):
                    return
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
        plan = self._engine.selected_plan if self._in_opening or len(self._plans) else -1
        grown = self._engine.take_grown()
        self._engine.end_iteration()
        statistics = self.tally.count(self.phase, plan)
        if self.phase is Phase.BYPASS:
            return
        self._plans.attach_missing()
        if 0 <= plan < len(self._plans):
            self._followed[self._plans.all[plan].key] = self.tally.iterations
        if self._in_opening:
            self._after_opening(statistics, plan)
        elif self.phase is Phase.REPLAY:
            if complete:
                self._after_replay(statistics, grown)
            if not self._engine.has_arena and self.phase is Phase.REPLAY:
                self._install(self._plans.all, plan)  # it was let go of for one iteration
        elif not complete:
            self._start_recording()
        else:
            self._recorded += 1
            self._tagger.close()
            self._start_tags()
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
        new = [one for one in steady if not is_planned(self._plans.all, iterations[one.reference])]
        if new:
            self._learn(iterations, new)
        elif last and (steady or self._completing):
            self._stop_recording()  # nothing here that the plans do not cover
            self.phase = Phase.REPLAY
            self._poor = 0
            kept = [one for one in self._plans.all if one is not self._completing]
            if self._completing and kept:
                self._install(kept, -1)
            self._completing = None
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

    def _learn(self, iterations: list[Iteration], found: list[Steady]) -> None:
        """Plans from a recording, and replays."""
        tags = self._tags.tags if self._tags else ()
        profiles = [
            (build_profile(iterations, steady, tags, self._meta(steady)), steady)
            for steady in reversed(found)  # the newest last: its plan is the one that is shown
        ]
        useful = [(profile, steady) for profile, steady in profiles if np.any(profile.turns > 0)]
        rows: Mapping[int, int] = {}
        if useful:
            profile, steady = useful[-1]
            rows = rows_by_address(self._engine.living(), iterations, steady, profile)
            self._note_opening(iterations, steady, tags)
        self._stop_recording()
        self._tags = None
        if not useful:
            self.profile = profiles[-1][0]
            self._give_up("no block of an iteration is ever freed, so nothing can be planned")
            return
        before = self._plans.all
        plans, changed = before, []
        for profile, steady in useful:
            for one, reference in (
                *relatives(iterations, steady, profile),
                (profile, iterations[steady.reference]),
            ):
                plans, number = merge(
                    plans,
                    one,
                    reference,
                    solver=self.options.solver,
                    alignment=self.framework.alignment,
                )
                changed.append(number)
        shown = plans[changed[-1]]
        # What single iterations have taught of these structures is known better now.
        kept = without_provisional(before, [iterations[one.reference] for _, one in useful])
        kept = [one for one in kept if one is not self._completing]
        plans = [one for one in plans if one in kept or one not in before]
        if self._install(*self._within_limit(plans, plans.index(shown)), rows):
            self._save()

    def _use(self, profile: Profile, number: int) -> bool:
        """Plans a profile anew and puts the plan in the place of its old one."""
        plan = make_plan(profile, solver=self.options.solver, alignment=self.framework.alignment)
        plans = self._plans.with_replaced(number, Planned(plan, profile))
        if Planned.largest(plans) >= self._too_large:
            return False
        if self._install(plans, number, rows_of_plan(self._engine.living(), number)):
            self._save()
        return True

    def _install(
        self, plans: list[Planned], number: int, rows: Mapping[int, int] | None = None
    ) -> bool:
        """Replays these plans, beginning with one of them.

        Args:
            plans: all of them.
            number: the one that the last iteration followed.
            rows: its rows, by address, for blocks that are alive now and that the next iteration
                frees.
        """
        parked = Parked()
        if self._relocation is not None and self._plans.needs_exchange(plans):
            if rows is None:
                rows = rows_of_plan(self._engine.living(), number)
            parked = self._relocation.clear_the_way(rows)
        before = self._plans.all
        installed = True
        try:
            self._plans.install(plans)
            if number >= 0:
                self._engine.select_plan(number)
        except AdapterError as error:
            installed = False
            parked.forget_rows()
            self._fall_back(before, Planned.largest(plans), error)
        if not self._settle(parked) or not installed:
            return False
        shown = plans[number]
        self.profile, self.plan = shown.profile, shown.plan
        self.phase = Phase.REPLAY
        self._poor = self._good = 0
        self._completing = None
        self._watch(good=False)
        self.framework.advise(advice.while_replaying(shown.plan, shown.profile))
        self._engine.reset_peaks()
        return True

    def _fall_back(self, before: list[Planned], size: int, error: AdapterError) -> None:
        """Goes on with the plans so far, where there is no memory for a larger arena."""
        reason = f"the arena of {size} bytes could not be had: {error}"
        if before and Planned.largest(before) < size:
            try:
                self._plans.install(before)
            except AdapterError:
                pass
            else:
                self._too_large = size
                self._warn(f"{reason}; the plans so far go on serving")
                self.phase = Phase.REPLAY
                self._completing = None
                self._watch(good=False)
                return
        self._give_up(reason)

    def _settle(self, parked: Parked) -> bool:
        """Brings parked blocks back; they matter more than an arena."""
        if not parked.items:
            return True
        assert self._relocation is not None
        try:
            self._relocation.settle(parked)
        except AdapterError as error:
            self._give_up(f"blocks that were moved aside found no memory beside the arena: {error}")
            self._relocation.settle(parked)
            return False
        return True

    # --- the first iteration from a saved plan --------------------------------------------------

    def _begin_opening(self, opening: Plan) -> bool:
        """Serves the very first iteration, and what it leaves behind for good."""
        assert self.plan is not None
        steady = self._given()
        self._openings = openings(opening, [planned.plan for planned in steady])
        size = max(opening_size(one) for one in self._openings)
        try:
            region = self.framework.take_region(size) if size and self._relocation else None
            self._plans.install_openings(self._openings, region, steady)
        except (AdapterError, PlanError) as error:
            self._warn(f"the plan given cannot serve the first iteration: {error}")
            self._plans.clear()
            self._engine.close_opening_region()
            return False
        self._in_opening = True
        self.phase = Phase.REPLAY
        self.framework.advise(advice.while_replaying(opening, None))
        return True

    def _after_opening(self, statistics: IterationStatistics, followed: int) -> None:
        """Goes on with the steady plans, unless the first iteration was not the planned one."""
        assert self.plan is not None
        self._in_opening = False
        self._engine.close_opening_region()
        missing = statistics.skipped / len(self._openings[followed])
        if min(statistics.known_rate, 1 - missing) < self.options.min_hit_rate:
            self._plans.clear()
            self.phase = Phase.VERIFY
            self._start_recording()
            return
        self._install(self._given(), 0)

    def _note_opening(
        self, iterations: list[Iteration], steady: Steady, tags: tuple[Tag, ...]
    ) -> None:
        """Plans the first iteration, which has requests of its own, for those who load the plan."""
        if self.options.save_directory is None or self._plans.all or self._opening is not None:
            return
        profile = build_opening(iterations, steady, tags, self._meta(steady))
        if profile is not None and np.any(profile.turns > 0):
            plan = make_plan(
                profile, solver=self.options.solver, alignment=self.framework.alignment
            )
            self._opening = Planned(plan, profile)

    # --- replay ---------------------------------------------------------------------------------

    def _after_replay(self, statistics: IterationStatistics, grown: list[tuple[int, int]]) -> None:
        if not statistics.misses["no_arena"]:  # without one nothing was wasted
            self._recent.append(statistics.hit_bytes_rate >= _WORTHWHILE)
        if self._recent.count(False) > _MOST_POOR:
            self._give_up(
                "too little of each iteration repeats for an arena to pay: "
                f"{_MOST_POOR + 1} of the last {len(self._recent)} had less than "
                f"{_WORTHWHILE:.0%} of their bytes in slots"
            )
            return
        good = statistics.hit_bytes_rate >= _GOOD and not grown
        self._credit = min(_MOST_LESSONS, self._credit + _EARNED) if good else self._credit
        if not good and self._watching and self._learn_at_once(statistics):
            return
        if not good and self.plan is not None:
            self.framework.advise(advice.while_replaying(self.plan, self.profile, statistics))
        if not good and self._complete_lesson(statistics):
            return
        self._watch(good)
        if grown and not self._watched and self._grow(grown, statistics):
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

    def _watch(self, good: bool) -> None:
        """Records the next iteration, too, unless all has gone well for long.

        That costs little, and an iteration of another shape is then learned from at once.
        """
        self._good = self._good + 1 if good else 0
        self._watched = self._watching
        self._watching = self._good < _LONG and self.phase is Phase.REPLAY
        if self._watching:
            self._engine.start_recording()
        elif self._watched:
            self._stop_recording()

    def _learn_at_once(self, statistics: IterationStatistics) -> bool:
        """Plans again from the iteration that has just ended, if it has something to teach."""
        misses = statistics.misses
        few = len(self._plans.all[statistics.plan].plan) // 100
        recognised = not misses["unknown"] and not misses["too_large"] and statistics.skipped <= few
        if recognised or self._credit < 1 or self._engine.recording_truncated:
            return False
        iterations = split(self._engine.events())
        if not iterations:
            return False
        lesson = learn(
            self._plans.all,
            iterations[-1],
            statistics.plan,
            solver=self.options.solver,
            alignment=self.framework.alignment,
            headroom=_HEADROOM if self._growths >= _GROWTHS_WITHOUT_HEADROOM else 0.0,
        )
        if lesson is None or Planned.largest(lesson.plans) >= self._too_large:
            return False
        self._credit -= 1
        self._replans += 1
        self._growths += lesson.grown > 0
        profile = lesson.plans[lesson.number].profile
        assert profile is not None
        rows = rows_of_iteration(self._engine.living(), profile)
        if self._install(*self._within_limit(lesson.plans, lesson.number), rows):
            self._save()
        return True

    def _within_limit(self, plans: list[Planned], number: int) -> tuple[list[Planned], int]:
        """Without those that were not followed for longest, where there are too many."""
        keep = sorted(
            range(len(plans)), key=lambda at: (at != number, -self._followed.get(plans[at].key, -1))
        )[: self.options.max_plans]
        return [plans[at] for at in sorted(keep)], sorted(keep).index(number)

    def _complete_lesson(self, statistics: IterationStatistics) -> bool:
        """Records a structure that was learned from one iteration, which did not show all of it.

        Blocks that were alive at its end, as no block of a known structure is, were taken for
        persistent ones. When they come again they are not: two iterations show when they die.
        """
        planned = self._plans.all[statistics.plan]
        if not planned.provisional or not statistics.misses["persistent"]:
            return False
        if self._unsteady or self._credit < 1:
            return False
        self._credit -= 1
        self._completing = planned
        self.phase = Phase.RECORD
        self._start_recording()
        return True

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
        if self._relocation is not None:
            # They move out, which needs no second arena.
            rows = rows_of_plan(self._engine.living(), statistics.plan)
            self._relocation.settle(self._relocation.clear_the_way(rows))
            return
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
            size = np.where(profile.varying, size + (size * _HEADROOM).astype(np.int64), size)
        return self._use(profile.widened(size), number)

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
            rows = self._rows_of_given(iterations)
            self._stop_recording()
            self._install(self._given(), 0, rows)
        elif self._recorded >= self.options.max_record_iterations:
            self._warn(
                f"the plan given does not match this program ({match.explanation}); "
                "making a new one instead"
            )
            self.plan = None
            self.phase = Phase.RECORD
            self._after_record()

    def _given(self) -> list[Planned]:
        """The plans that the program has named."""
        assert self.plan is not None
        others = [Planned(plan, None) for plan in self.plan.others]
        return [Planned(self.plan, self.profile), *others]

    def _rows_of_given(self, iterations: list[Iteration]) -> Mapping[int, int]:
        """Rows of the given plan for the blocks that the last recorded iteration left alive."""
        assert self.plan is not None
        steady = steady_of(requests_of(self.plan), iterations)
        living = self._engine.living()
        return rows_by_address(living, iterations, steady, profile_of(self.plan))

    # --- recording ------------------------------------------------------------------------------

    def _start_recording(self) -> None:
        self._tagger.close()
        self._tags = None
        self._recorded = 0
        self._start_tags()
        if not len(self._plans) and not self._sparing:
            self._sparing = True
            self.framework.spare_memory(True)
        if not len(self._plans):
            self.framework.advise(advice.while_recording())
        self._engine.start_recording()
        self.tally.recording_begins()

    def _start_tags(self) -> None:
        """Tags one recorded iteration, which slows it down, and adds requests of its own.

        So that one is not planned. It is the first, unless the first is to be saved as it is.
        """
        first_is_needed = self.options.save_directory is not None and not len(self._plans)
        if (
            self.options.tags
            and self.phase is Phase.RECORD
            and self._recorded == int(first_is_needed)
        ):
            self._tags = self._tagger.enter_context(Tagger(_core.set_tag))

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
        moved = [self._relocation.note] if self._relocation and self._relocation.note else []
        notes = (*self._notes, *moved)
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

    def _save(self) -> None:
        """Writes all plans and their profiles."""
        folder = self.options.save_directory
        if folder is None:
            return
        try:
            # The main one is the one that needs most.
            plans = sorted(self._plans.all, key=lambda planned: -planned.plan.arena)
            files = save(plans, self._opening, folder, self.options.model_name)
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
