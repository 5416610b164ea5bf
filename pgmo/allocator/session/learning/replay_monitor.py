"""Watches replayed iterations, and learns from those that were served badly.

    replay ──served badly──▶ a lesson: larger sizes, or another structure ──▶ replay
                     └─────▶ nothing to learn, or too often ──▶ the lifecycle records again

Replayed iterations are recorded, too, until all has gone well for long; that costs little.
"""

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from pgmo.allocator import tuning
from pgmo.allocator.plans.installer import Installer
from pgmo.allocator.session.learning.credit import LessonCredit
from pgmo.allocator.session.learning.lessons import Lesson, closest, learn
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.profiler.profile import MAX_SIZE
from pgmo.profiler.recording import split

if TYPE_CHECKING:
    from pgmo.allocator.plans.plan_set import PlannedProfile

_ANY = 1 << 62


class ReplayMonitor:
    """What replayed iterations teach.

    Args:
        state: where the session stands.
        installer: gets the plans that are made.
        recorder: is stopped when there is nothing more to watch.

    Attributes:
        completing: a plan from a single iteration that did not show all, which is recorded again.
        unsaved: whether sizes have come since the plans were saved, for which those have no room.
    """

    def __init__(self, state: SessionState, installer: Installer, recorder: Recorder) -> None:
        self._state = state
        self._installer = installer
        self._recorder = recorder
        self._engine = state.adapter.engine
        self._watching = self._watched = False  # whether replayed iterations are recorded
        # Whether iterations were worthwhile.
        self._recent: deque[bool] = deque(maxlen=tuning.RECENT_ITERATIONS)
        self._good = 0  # successive iterations that were served well
        self._credit = LessonCredit()
        self._growths = 0  # each a little larger than the iteration before
        self._requested = 0  # bytes, by the last iteration
        self._rising = False
        self._disorder = 0  # grows with iterations whose requests no plan expects
        self._orderly = True
        self.completing: PlannedProfile | None = None
        self.unsaved = False

    def restart(self) -> None:
        """New plans are in place."""
        self.completing = None
        self.go_on(good=False)

    def go_on(self, good: bool) -> None:
        """Records the next iteration, too, unless all has gone well for long."""
        self._good = self._good + 1 if good else 0
        self._watched = self._watching
        self._watching = self._good < tuning.LONG_WATCH and self._state.phase is Phase.REPLAY
        if self._watching:
            self._engine.start_recording()
        elif self._watched:
            self._recorder.stop()

    def judge(self, statistics: IterationStatistics, grown: bool) -> bool:
        """Whether an iteration was served well; good ones earn credit for lessons."""
        requested = statistics.bytes_requested
        self._rising = self._requested >= tuning.RISING_SHARE * requested
        self._requested = requested
        if not statistics.misses["no_arena"]:  # without one nothing was wasted
            served = statistics.hit_bytes_rate >= tuning.WORTHWHILE_SHARE
            planned = statistics.hits + statistics.misses["persistent"]
            # What the plan itself leaves out, as a stream's blocks, was expected.
            self._recent.append(served or planned >= tuning.WORTHWHILE_SHARE * statistics.requests)
        change = 1 if _disorderly(statistics) else -1
        self._disorder = min(tuning.MOST_DISORDER, max(0, self._disorder + change))
        if self._disorder in (0, tuning.MOST_DISORDER // 2):
            self._orderly = self._disorder == 0
        good = self.expected(statistics) and not grown
        if good:
            self._credit.earn()
        return good

    @property
    def orderly(self) -> bool:
        """Whether iterations are those of the plans, or may become so by learning from them."""
        return self._orderly

    @property
    def may_pass(self) -> int:
        """Iterations as good as the last one that need not be judged one by one: see `passed`."""
        if self._watching is not self._watched or self._disorder or not self._orderly:
            return 0
        if not self._good or not self._recent or not self._recent[-1]:
            return 0
        return tuning.LONG_WATCH - self._good - 1 if self._watching else _ANY

    @property
    def most_bytes(self) -> list[int]:
        """By plan, the bytes that one of these may have requested without being looked at."""
        seen = self._installer.seen
        return [
            -1
            if planned.provisional  # what it leaves out may be wanted
            else seen.known_up_to(planned)
            if self._watching and planned.headroom
            else MAX_SIZE
            for planned in self._installer.plans.all
        ]

    def passed(self, iterations: int, requested: tuple[int, int]) -> None:
        """Good iterations have passed that were not judged.

        Args:
            iterations: how many.
            requested: bytes, by the last one and by the one before it.
        """
        last, before = requested
        self._rising = (before if iterations > 1 else self._requested) >= tuning.RISING_SHARE * last
        self._requested = last
        self._recent.extend([True] * min(iterations, tuning.RECENT_ITERATIONS))
        self._credit.earn(iterations)
        self._good += iterations

    @property
    def objection(self) -> str:
        """Why an arena does not pay, in plain words; "" as long as it does."""
        if self._recent.count(False) <= tuning.MOST_POOR:
            return ""
        threads = self._state.turns.threads
        why = (
            f"{threads} threads request memory at the same time, and session.pause() leaves out "
            "what the thread does that calls it"
            if threads > 1
            else "where gradients are accumulated, one iteration is all micro-batches of an "
            "optimizer step"
        )
        return (
            "too little of each iteration repeats for an arena to pay: "
            f"{tuning.MOST_POOR + 1} of the last {len(self._recent)} had less than "
            f"{tuning.WORTHWHILE_SHARE:.0%} of their bytes in the arena ({why})"
        )

    def learn(self, statistics: IterationStatistics, *, stretched: bool = False) -> bool:
        """Plans again from the iteration that has just ended, if it has something to teach.

        Args:
            statistics: of that iteration.
            stretched: whether the engine has made its plan larger for it.
        """
        requests, plans = statistics.requests, len(self._installer.plans)
        if not self._watching or not self._credit.allows(requests, plans):
            return False
        if self._recognised(statistics) and not stretched:
            return False
        iterations = [] if self._engine.recording_truncated else split(self._engine.events())
        if not iterations:
            return False
        installer = self._installer
        lesson = learn(
            installer.plans.all,
            iterations[-1],
            statistics.plan,
            planning=self._state.planning,
            headroom=self._headroom,
        )
        if lesson is None:
            self._expect(closest(installer.plans.all, iterations[-1]), statistics)
            return False
        if not installer.affordable(lesson.plans):
            return False
        self._credit.spend(requests, plans)
        if self._mistaken(lesson, statistics):
            return False
        self._state.replans += 1
        self._growths += lesson.grown > 0 and self._rising
        new = lesson.plans[lesson.number]
        profile = new.profile
        assert profile is not None
        before = installer.plans.all[lesson.number : lesson.number + 1]  # none: a new structure
        if installer.install(*installer.within_limit(lesson.plans, lesson.number)):
            if lesson.grown > 0:  # the same requests, a little larger
                self._engine.trust_plans()
            for old in before:
                installer.seen.follow(old, new)
            installer.seen.note(new, iterations[-1], statistics.bytes_requested)
            installer.save()
            self.unsaved = False
        self.restart()
        return True

    def look(self, statistics: IterationStatistics) -> None:
        """Notes the sizes of a good iteration that is the largest of its structure so far."""
        installer = self._installer
        if not self._watching or not 0 <= statistics.plan < len(installer.plans):
            return
        planned = installer.plans.all[statistics.plan]
        requested = statistics.bytes_requested
        if not installer.seen.larger_than_before(planned, requested):
            return
        iterations = [] if self._engine.recording_truncated else split(self._engine.events())
        if iterations and installer.seen.note(planned, iterations[-1], requested):
            self.unsaved = True

    def wants_more(self, statistics: IterationStatistics) -> bool:
        """Whether a structure that was learned from one iteration has to be recorded.

        Blocks that were alive at its end, as no block of a known structure is, were taken for
        persistent ones. When they come again they are not: two iterations show when they die.
        """
        planned = self._installer.plans.all[statistics.plan]
        if not planned.provisional or not statistics.misses["persistent"]:
            return False
        if self._state.unsteady or not self._credit.spend(statistics.requests):
            return False
        self.completing = planned
        return True

    def grow(self, grown: list[tuple[int, int]], statistics: IterationStatistics) -> bool:
        """Plans again from the envelope of the sizes seen: section 4 of Sekiyama et al. 2018.

        For iterations that were not recorded.
        """
        if not grown or self._watched:
            return False
        number = statistics.plan
        planned = self._installer.plans.all[number]
        missing = statistics.skipped / len(planned.plan)
        if min(statistics.known_rate, 1 - missing) < self._state.options.min_hit_rate:
            return False  # another structure, whose sizes say nothing about this one
        profile = planned.profile or planned.plan.profile()
        size = profile.size.copy()
        for ordinal, larger in grown:
            size[ordinal] = max(size[ordinal], larger)
        self._state.replans += 1
        self._growths += self._rising
        if self._headroom:
            # Lengths that rise step by step would be planned again at every step.
            size = np.where(profile.varying, size + (size * self._headroom).astype(np.int64), size)
        if not self._installer.replan(profile.widened(size), number):
            return False
        self.restart()
        return True

    def expected(self, statistics: IterationStatistics) -> bool:
        """Whether next to all of an iteration's bytes were those of its plan.

        It may have had one request that its plan has at a smaller size, and nothing to teach.
        """
        return self._expected_share(statistics) >= tuning.GOOD_SHARE

    @property
    def _headroom(self) -> float:
        """By which plans are made larger: where each length is a little longer than the last.

        None where arenas have room: the engine's plans grow by themselves.
        """
        adapter = self._state.adapter
        rises = self._rising and self._growths >= tuning.GROWTHS_WITHOUT_HEADROOM
        return tuning.HEADROOM if rises and not adapter.pages else 0.0

    def _expected_share(self, statistics: IterationStatistics) -> float:
        """Of the bytes: those from slots, and those that the plan leaves out."""
        plans = self._installer.plans.all
        if not 0 <= statistics.plan < len(plans) or plans[statistics.plan].provisional:
            return statistics.hit_bytes_rate
        return 1 - statistics.bytes_unexpected / max(1, statistics.bytes_requested)

    def _expect(self, number: int, statistics: IterationStatistics) -> None:
        """Begins the next iteration with a plan that would have served the last one.

        Where two begin alike, as a step does with and without pictures that are made after it, an
        iteration goes on with the wrong one, and would be taken for a follower of that for good.
        """
        if number < 0 or number == statistics.plan or not self._credit.spend(statistics.requests):
            return
        followed, plans = statistics.plan, self._installer.plans.all
        if not 0 <= followed < len(plans) or len(plans[number].plan) < len(plans[followed].plan):
            self._engine.correct_plan(number)

    def _mistaken(self, lesson: Lesson, statistics: IterationStatistics) -> bool:
        """Whether requests were paired worse than replay has recognised them.

        Then many would be twice in the plan, and one iteration would take others than the next.
        """
        plans = self._installer.plans.all
        if lesson.number != statistics.plan or not 0 <= lesson.number < len(plans):
            return False
        before = len(plans[lesson.number].plan)
        few = tuning.MISTAKEN_SHARE * before
        added = len(lesson.plans[lesson.number].plan) - before
        return added > few + 2 * statistics.misses["unknown"]

    def _recognised(self, statistics: IterationStatistics) -> bool:
        """Whether the requests were those of the plan: then nothing can be learned from them."""
        misses = statistics.misses
        few = len(self._installer.plans.all[statistics.plan].plan) // 100
        return not misses["unknown"] and not misses["too_large"] and statistics.skipped <= few


def _disorderly(statistics: IterationStatistics) -> bool:
    """Whether the program has left its plans, and not only for larger sizes."""
    return statistics.misses["unknown"] > tuning.STRANGE_SHARE * statistics.requests
