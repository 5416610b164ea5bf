"""Choice of the calls that a session counts, if its iterations are calls of a function.

    thread A   ( call          ) boundary          ( call
    thread B         ( bypass )        ( bypass )
    engine     ...   serves A   ...   paused   ... serves A

Requests between calls belong to no iteration. A call *bypasses* the session if it begins in a
pause, or before the end of an earlier call has been processed. Pages or the framework serve the
requests of that call.

A call never waits, because a server's request must not wait for another request's plan. So this
class has its own lock, which is held for a few instructions and never while waiting for another
lock. Processing the end of a call takes the lock of `boundary.py`.
"""

import os
import threading
from collections.abc import Callable

from pgmo import _core
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.allocator.session.threads.turns import Turns
from pgmo.errors import SessionError
from pgmo.locks import new_lock

OVERLAP = (
    "several threads call at the same time: slots serve one call at a time; pages or the "
    "framework's own allocator serve the other calls"
)


class CallTurns(Turns):
    """Choice of the counted calls, which any thread may enter. Overlapping calls cause one warning.

    At the end of a counted call, `end(complete)` is called. A call that raises is incomplete.
    """

    def __init__(
        self,
        engine: _core.Engine,
        warn: Callable[[str], object],
        end: Callable[[bool], object],
        paused: Pauses | None = None,
    ) -> None:
        super().__init__(engine, warn, paused)
        self._end = end
        self._lock = new_lock()
        self._counted_thread: int | None = None
        self._bypassing_natives: dict[int, int | None] = {}  # by thread, during its call
        self._process = os.getpid()
        self._closed = self._warned = False
        self._paused.begin(self)

    def enter(self) -> Callable[[bool], None] | None:
        """Begin a call on the calling thread; return a callback for the end of the call, or None.

        The callback's argument is whether the call was complete. The result is None inside another
        call of the thread, in a forked child, and after the session was closed.
        """
        if os.getpid() != self._process:
            return None  # the thread that holds the lock does not exist in the child
        me = threading.get_ident()
        with self._lock:
            if self._closed or self._counted_thread == me or me in self._bypassing_natives:
                return None
            if self._counted_thread is None and not self._pauses:
                self._counted_thread = me
                self._paused.end(self)
                return self._leave
            first = not (self._pauses or self._warned)
            self._warned = self._warned or first
            self._bypassing_natives[me] = native = threading.get_native_id()
            self._engine.delegate_thread(native, True)
        if first:
            try:
                self._warn(OVERLAP)
            except BaseException:  # if warnings are errors, the call ends here
                self._leave_aside(False)
                raise
        return self._leave_aside

    def _leave(self, complete: bool) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._closed:
                return
            self._paused.begin(self)
        try:
            self._end(complete)  # calls that begin meanwhile bypass the session
        finally:
            with self._lock:
                self._counted_thread = None

    def _leave_aside(self, _complete: bool) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            native = self._bypassing_natives.pop(threading.get_ident(), None)
            if native is not None:
                self._engine.delegate_thread(native, False)

    @property
    def is_inside(self) -> bool:
        """Return whether the calling thread is inside a call."""
        me = threading.get_ident()
        return me == self._counted_thread or me in self._bypassing_natives

    # --- interface of `Turns` -------------------------------------------------------------------

    def begin_iteration(self) -> None:
        """Raise `SessionError`, because each call is an iteration."""
        raise SessionError("this session's iterations are calls, which end by themselves")

    def ends_iteration(self) -> bool:
        """Raise `SessionError`, because each call ends its own iteration."""
        self.begin_iteration()
        return False

    def pause(self) -> object:
        """Make calls that begin before `resume` bypass the session; return the pause's token."""
        token = object()
        with self._lock:
            self._pauses[token] = threading.current_thread()
        return token

    def resume(self, token: object) -> None:
        """End a pause."""
        with self._lock:
            self._pauses.pop(token, None)

    def close(self) -> None:
        """Undo all bypasses and pauses in the engine; running calls continue without pgmo."""
        with self._lock:
            self._closed = True
            for native in filter(None, self._bypassing_natives.values()):
                self._engine.delegate_thread(native, False)
            self._bypassing_natives.clear()
            self._paused.end(self)
