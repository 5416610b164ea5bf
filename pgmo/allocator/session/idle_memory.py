"""Lends an idle arena's pages to what runs in a pause, where memory is the host's."""

import time

from pgmo import _core

_BYTES_PER_SECOND = 2 << 30
"""At which the system makes pages of zeros when they are used again; slow machines do this."""

_OF_A_PAUSE = 1 / 20
"""Share of a pause that this may cost."""

_OF_ALL_TIME = 1 / 100
"""Share of all time that it may cost where pauses are short."""


class IdleMemory:
    """What an arena does in pauses.

    An evaluation has memory of its own, beside an arena in which nothing lives meanwhile: without
    this the process would need both. To fill pages again takes time, so it is not done for a line
    in a log: it depends on how long the last pause was, and on when it was done before.

    Args:
        engine: to be paused whenever `begin` is called.

    Example:
        >>> idle = IdleMemory(_core.Engine())
        >>> idle.begin()
        >>> idle.end()
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._began = 0.0
        self._lasted: float | None = None  # the last pause
        self._lent: float | None = None  # when pages were lent

    def begin(self) -> None:
        """The program pauses."""
        self._began = time.monotonic()
        seconds = self._engine.statistics()["arena_bytes"] / _BYTES_PER_SECOND
        if seconds and self._pays(seconds):
            self._engine.discard_idle_host_memory()
            self._lent = self._began

    def end(self) -> None:
        """It goes on."""
        self._lasted = time.monotonic() - self._began

    def _pays(self, seconds: float) -> bool:
        if self._lasted is None or self._lent is None:
            return True
        since = self._began - self._lent
        return seconds <= max(self._lasted * _OF_A_PAUSE, since * _OF_ALL_TIME)
