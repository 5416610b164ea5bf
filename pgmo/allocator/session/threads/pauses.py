"""Who wants that nobody is served: an engine serves again once none of them does.

session.pause()    ( .................. )
release()                  ( .. )              on the CPU, while arenas go back
other's turn                          ( ..... )
engine             paused ..................... serves
"""

from pgmo import _core
from pgmo.locks import new_reentrant_lock


class Pauses:
    """Pauses an engine, which itself knows only whether it is. Any thread may call anything.

    Args:
        engine: is told when the first one begins and the last one ends.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._lock = new_reentrant_lock()  # a signal's handler may close the session amid a pause
        self._who: set[object] = set()

    def begin(self, who: object) -> None:
        """Somebody wants it. Twice is fine."""
        with self._lock:
            if not self._who:
                self._engine.pause()
            self._who.add(who)

    def end(self, who: object) -> None:
        """Somebody does not any more, or never has."""
        with self._lock:
            if who not in self._who:
                return
            self._who.discard(who)
            if not self._who:
                self._engine.resume()
