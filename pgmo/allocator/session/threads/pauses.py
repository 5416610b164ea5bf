"""Pauses of an engine, which serves again when the last pause has ended.

session.pause()    ( .................. )
release()                  ( .. )              on the CPU, while arenas go back
other's turn                          ( ..... )
engine             paused ..................... serves
"""

from pgmo import _core
from pgmo.locks import new_reentrant_lock


class Pauses:
    """Pauses of one engine, at most one for each owner. Thread-safe."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._lock = new_reentrant_lock()  # a signal handler may close the session inside
        self._who: set[object] = set()

    def begin(self, who: object) -> None:
        """Begin an owner's pause. Repeated calls have no effect."""
        with self._lock:
            if not self._who:
                self._engine.pause()
            self._who.add(who)

    def end(self, who: object) -> None:
        """End an owner's pause, if it has one."""
        with self._lock:
            if who not in self._who:
                return
            self._who.discard(who)
            if not self._who:
                self._engine.resume()
