"""Whose calls a session counts, when calls of something are its iterations.

    thread A   ( call          ) boundary          ( call
    thread B         ( beside )        ( beside )
    engine     ...   serves A   ...   paused   ... serves A

A call is an iteration from its beginning to its end, and what is requested between calls is in
none. One call at a time is counted. One that begins while another is counted, or while that one's
boundary plans, stands beside: the framework serves it, from pages where there are any.

Nobody waits here, for a server's request must not wait for the plan of another one. So there is a
lock of its own, which is held for a few instructions and never while another is waited for; the
boundary itself is exclusive, as all are.
"""

import os
import threading
from collections.abc import Callable

from pgmo import _core
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.allocator.session.threads.turns import Turns
from pgmo.errors import SessionError
from pgmo.locks import new_lock

BESIDE = (
    "several threads call at the same time: one call at a time is planned and served, and the "
    "framework's own allocator serves the others, from pages where it has some"
)


class CallTurns(Turns):
    """Decides whose calls count. Any thread may enter at any time.

    Args:
        engine: is told which threads to delegate, and when to serve nobody.
        warn: called once, when calls are found to overlap.
        end: ends an iteration; it is told whether the call was complete.
        paused: others' pauses of the engine; None: there are none.
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
        self._aside: dict[int, int | None] = {}  # threads in calls that stand beside
        self._process = os.getpid()
        self._closed = self._told = False
        self._paused.begin(self)

    def enter(self) -> Callable[[bool], None] | None:
        """A call begins on this thread.

        Returns:
            What to call at its end, with whether it was complete. None where nobody needs to know:
            inside another call, in a forked child, or when the session has been closed.
        """
        if os.getpid() != self._process:
            return None  # whoever held the lock may not exist here
        me = threading.get_ident()
        with self._lock:
            if self._closed or self._counted_thread == me or me in self._aside:
                return None
            if self._counted_thread is None and not self._pauses:
                self._counted_thread = me
                self._paused.end(self)
                return self._leave
            first = not (self._pauses or self._told)
            self._told = self._told or first
            self._aside[me] = native = threading.get_native_id()
            self._engine.delegate_thread(native, True)
        if first:
            try:
                self._warn(BESIDE)
            except BaseException:  # warnings are errors here, so the call ends
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
            self._end(complete)  # meanwhile, others stand beside
        finally:
            with self._lock:
                self._counted_thread = None

    def _leave_aside(self, _complete: bool) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            native = self._aside.pop(threading.get_ident(), None)
            if native is not None:
                self._engine.delegate_thread(native, False)

    @property
    def is_inside(self) -> bool:
        """Whether the calling thread is inside of a call."""
        me = threading.get_ident()
        return me == self._counted_thread or me in self._aside

    # --- what sessions ask for ------------------------------------------------------------------

    def begin_iteration(self) -> None:
        """Nobody marks iterations here.

        Raises:
            SessionError: always.
        """
        raise SessionError("this session's iterations are calls, which end by themselves")

    def ends_iteration(self) -> bool:
        """Nobody marks iterations here.

        Raises:
            SessionError: always.
        """
        self.begin_iteration()
        return False

    def pause(self) -> object:
        """Calls that begin until `resume` stand beside."""
        token = object()
        with self._lock:
            self._pauses[token] = threading.current_thread()
        return token

    def resume(self, token: object) -> None:
        """The pause has ended."""
        with self._lock:
            self._pauses.pop(token, None)

    def close(self) -> None:
        """Leaves nothing behind in the engine; calls that run go on without."""
        with self._lock:
            self._closed = True
            for native in filter(None, self._aside.values()):
                self._engine.delegate_thread(native, False)
            self._aside.clear()
            self._paused.end(self)
