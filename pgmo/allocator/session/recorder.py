"""Recording of iterations, and tagging of a recorded iteration with modules and operators."""

import threading
from contextlib import ExitStack
from functools import partial
from itertools import takewhile

from pgmo import _core
from pgmo.allocator import heuristics
from pgmo.allocator.session import advice
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.profiler.tag import Tag
from pgmo.profiler.tagging import dynamo
from pgmo.profiler.tagging.tags import Tagger

_MOST_TAGGED = 3
"""Maximum number of tagged iterations in one recording. If code is compiled in a tagged iteration,
the next iteration is tagged, too. The limit is for programs that compile in every iteration."""

_ALTERNATION = 2
"""Period of two alternating structures, in iterations. A recording of the usual length shows this
period but cannot confirm it, because the first iteration of each structure is different."""

_tagging_threads: list[int] = []
"""Id of the one thread whose operators are tagged, once for each session that tags."""


class Recorder:
    """Recording of one session: its length, tags and totals so far."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._engine = state.adapter.engine
        self._tagging = ExitStack()
        self._tagger: Tagger | None = None
        self._tagged = 0  # iterations
        self._began = self._tags_from = 0  # iteration numbers
        self._is_extended = False
        self._sparing = False
        self._may_tag = False
        self._usual_length = self._length = heuristics.current.usual_recording
        self._recorded: list[IterationStatistics] = []  # in this recording

    def start(self, iteration: int, *, has_plans: bool, length: int = 0, tags: bool = True) -> None:
        """Drop the previous recording and begin a new one.

        Args:
            iteration: number of the session's next iteration.
            has_plans: whether plans serve during the recording.
            length: maximum number of iterations; 0 for the default, which `lengthen` doubles.
            tags: whether an iteration may be tagged.
        """
        self._end_tags()
        self._length = length or self._usual_length
        self._is_extended = False
        self._recorded.clear()
        self._began = iteration
        self._may_tag = tags and not has_plans and iteration >= self._tags_from
        self._start_tags()
        if not has_plans:
            if not self._sparing:
                self._sparing = True
                self._state.adapter.spare_memory(True)
            self._state.adapter.advise(advice.while_recording(pages=self._state.adapter.pages))
        self._engine.start_recording()

    def next(self, statistics: IterationStatistics) -> None:
        """Count a recorded iteration."""
        self._recorded.append(statistics)
        if self._tagged:
            self._tags_from = self._began + heuristics.current.longest_backoff
        self._tagging.close()
        self._start_tags()

    @property
    def iterations(self) -> int:
        """Number of iterations in this recording."""
        return len(self._recorded)

    @property
    def requested(self) -> int:
        """Bytes requested in this recording."""
        return sum(one.bytes_requested for one in self._recorded)

    @property
    def _totals(self) -> list[tuple[int, int]]:
        return [(one.requests, one.bytes_requested) for one in self._recorded]

    @property
    def is_complete(self) -> bool:
        """Return whether the recording has its full length."""
        return self.iterations >= self._length

    @property
    def is_lengthened(self) -> bool:
        """Return whether the recording is longer than usual."""
        return self._length > heuristics.current.usual_recording

    @property
    def is_steady(self) -> bool:
        """Return whether the latest iterations have equal numbers of requests and of bytes."""
        return self.period == 1

    @property
    def may_repeat(self) -> bool:
        """Return whether two iterations have equal numbers of requests and of bytes."""
        return len(set(self._totals)) < len(self._totals)

    @property
    def period(self) -> int:
        """Number of iterations after which the latest iterations repeat; 0 if they do not repeat.

        Iterations repeat if they have equal numbers of requests and of bytes.
        """
        most = self.iterations // (heuristics.current.confirmations + 1)
        periods = range(1, most + 1)
        return next((one for one in periods if self._equal_at(one) >= self._required(one)), 0)

    def _equal_at(self, distance: int) -> int:
        """Return how many of the latest iterations equal the iterations `distance` before them."""
        totals = self._totals
        pairs = zip(reversed(totals), reversed(totals[:-distance]), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    @staticmethod
    def _required(period: int) -> int:
        return heuristics.current.confirmations * period

    def extend_for_period(self) -> bool:
        """Extend an alternating recording once; return whether it was extended."""
        if self._is_extended or self._equal_at(1) or not self._equal_at(_ALTERNATION):
            return False
        self._is_extended = True
        self._length += self._required(_ALTERNATION) - self._equal_at(_ALTERNATION)
        return True

    @property
    def is_served(self) -> bool:
        """Return whether plans have served enough of the recorded bytes to be kept."""
        served = sum(one.bytes_hit for one in self._recorded)
        return served >= heuristics.current.worthwhile_share * self.requested

    def lengthen(self) -> None:
        """Double the length of the next recordings, up to a limit."""
        doubled = min(2 * self._usual_length, heuristics.current.longest_recording)
        self._usual_length = max(self._usual_length, doubled)

    def forget_length(self) -> None:
        """Reset the length of the next recordings to the usual length."""
        self._usual_length = heuristics.current.usual_recording

    def forget_tags(self) -> None:
        """Let the next recording be tagged, although an earlier one was tagged recently."""
        self._tags_from = 0

    def stop(self) -> None:
        """Stop recording and drop the recorded events."""
        self._end_tags()
        if self._sparing:
            self._sparing = False
            self._state.adapter.spare_memory(False)
        self._engine.stop_recording()
        self._engine.forget_recording()

    @property
    def tags(self) -> tuple[Tag, ...]:
        """Tags assigned in this recording."""
        return self._tagger.tags if self._tagger else ()

    def _end_tags(self) -> None:
        self._tagging.close()
        self._tagger, self._tagged = None, 0
        self._engine.expect_tags(0)

    def _start_tags(self) -> None:
        """Begin to tag the next iteration, if this recording still needs a tagged iteration.

        A tagged iteration takes about three times the CPU time, so a session tags only if
        `Options.names_blocks`. A session tags the first iteration of a recording, or a later
        iteration if another thread is tagging during the first. While plans serve, it tags none.
        """
        recording = self._state.phase is Phase.RECORD and self._may_tag
        # Only modules and operators of torch can be tagged.
        by_torch = self._state.adapter.name != "cupy"
        wanted = self._state.options.names_blocks and recording and by_torch and dynamo.hidden()
        # An iteration in which code is compiled differs from later ones, and its tags end early.
        again = self._tagger is not None and self._tagger.compiled
        due = self._tagged < _MOST_TAGGED if again else not self._tagged
        me = threading.get_ident()
        if wanted and due and all(thread == me for thread in _tagging_threads):
            _tagging_threads.append(me)
            self._tagging.callback(_tagging_threads.remove, me)
            self._tagged += 1
            # An operator of another thread may still run after the tagger's end. A new generation
            # makes the engine ignore that operator's tag.
            generation = _core.next_tag_generation()
            set_tag = partial(_core.set_tag, generation=generation)
            tagger = Tagger(set_tag, self._state.adapter.operators, self.tags)
            self._tagger = self._tagging.enter_context(tagger)
            self._engine.expect_tags(generation)
