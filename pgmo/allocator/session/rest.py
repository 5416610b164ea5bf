"""What a pause leaves to others: the pages of an arena that idles meanwhile.

training   ▓▓▓▓▓▓▓▓             ▓▓▓▓▓▓▓▓     the arena
evaluation          ▒▒▒▒▒▒▒▒▒▒               the framework's memory, returned when it is over
"""

from pgmo.allocator import tuning
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import Phase
from pgmo.allocator.session.statistics_collector import StatisticsCollector


class Rest:
    """Tells the adapter when nobody is served for a while. To be used by one thread at a time.

    Args:
        state: where the session stands.
        collector: knows how many iterations there were.

    Example:
        >>> rest = Rest(state, collector)  # doctest: +SKIP
        >>> rest.begin()  # doctest: +SKIP
    """

    def __init__(self, state: SessionState, collector: StatisticsCollector) -> None:
        self._state = state
        self._collector = collector
        self._since = 0  # iterations there were when the last one began
        self._rests = False

    def begin(self) -> None:
        """A pause has begun; in one of a thread beside others, they are served on."""
        state, now = self._state, self._collector.iterations
        served = state.phase in (Phase.BYPASS, Phase.CLOSED) or not state.turns.nobody_served
        if self._rests or served or now - self._since < tuning.REST_ITERATIONS:
            return
        self._rests, self._since = True, now
        state.adapter.rest(True)

    def end(self) -> None:
        """It has ended."""
        if not self._rests or self._state.turns.nobody_served:
            return
        self._rests = False
        if self._state.phase not in (Phase.BYPASS, Phase.CLOSED):
            self._state.adapter.rest(False)
