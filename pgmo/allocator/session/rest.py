"""What a pause leaves to others: the pages of an arena that idles meanwhile.

training   ▓▓▓▓▓▓▓▓             ▓▓▓▓▓▓▓▓     the arena
evaluation          ▒▒▒▒▒▒▒▒▒▒               the framework's memory, returned when it is over

To touch an arena's pages anew may take as long as an iteration, so a pause for a line of a log is
not worth it. Whoever pauses may know how long it will take; else the last pause tells.
"""

import time
from collections.abc import Callable

from pgmo.allocator import tuning
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import Phase
from pgmo.allocator.session.statistics_collector import StatisticsCollector


class Rest:
    """Tells the adapter when nobody is served for a while. To be used by one thread at a time.

    Args:
        state: where the session stands.
        collector: knows how many iterations there were.
        clock: seconds.

    Example:
        >>> rest = Rest(state, collector)  # doctest: +SKIP
        >>> rest.begin()  # doctest: +SKIP
    """

    def __init__(
        self,
        state: SessionState,
        collector: StatisticsCollector,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._collector = collector
        self._clock = clock
        self._since = 0  # iterations there were when the last one began that was a rest
        self._rests = False
        self._long = False  # whether the last pause took longer than an iteration
        self._began: float | None = None  # the pause of all threads that goes on
        self._resumed = clock()  # when the last one ended, and after how many iterations
        self._iterations = 0

    def begin(self, long: bool | None = None) -> None:
        """A pause has begun; in one of a thread beside others, they are served on.

        Args:
            long: whether it will take longer than an iteration; None: not known.
        """
        state, now = self._state, self._collector.iterations
        served = state.phase in (Phase.BYPASS, Phase.CLOSED) or not state.turns.nobody_served
        if served:
            return
        if self._began is None:
            self._began = self._clock()
        worth_it = self._long if long is None else long
        if self._rests or not worth_it or now - self._since < tuning.REST_ITERATIONS:
            return
        self._rests, self._since = True, now
        state.adapter.rest(True)

    def end(self) -> None:
        """It has ended."""
        if self._state.turns.nobody_served:
            return
        self._learn()
        if not self._rests:
            return
        self._rests = False
        if self._state.phase not in (Phase.BYPASS, Phase.CLOSED):
            self._state.adapter.rest(False)

    def _learn(self) -> None:
        """How long the pause took, beside an iteration since the one before."""
        if self._began is None:
            return
        now, iterations = self._clock(), self._collector.iterations
        if iterations > self._iterations:
            usual = (self._began - self._resumed) / (iterations - self._iterations)
            self._long = now - self._began > usual
        self._began, self._resumed, self._iterations = None, now, iterations
