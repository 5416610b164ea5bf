"""The session: watches a loop's iterations, plans, and serves the later ones from one arena.

    record ──two iterations agree, and one more──▶ plan ──▶ replay
      ▲                                                        │
      └────────── requests not the planned ones ───────────────┘
    verify (a saved plan) ──matches──▶ replay      ──does not──▶ record

Whatever the program does, requests that are not in the plan go to the framework's own allocator, so
a wrong plan costs memory and never correctness.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, cast

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.session import open_sessions
from pgmo.allocator.session.device_sharing import DeviceSharing
from pgmo.allocator.session.optimized import Optimized
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.statistics import Phase
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted
from pgmo.allocator.session.threads.call_turns import CallTurns
from pgmo.errors import SessionError
from pgmo.user_warnings import warn_user

if TYPE_CHECKING:
    from pgmo.allocator.managed.unified import UnifiedAdapter

P = ParamSpec("P")
R = TypeVar("R")


def active_session(find: Callable[[], Adapter]) -> "Session | None":
    """The open session of a framework's allocator, if there is one.

    Example:
        >>> active_session(torch_cpu)  # doctest: +SKIP
    """
    if not open_sessions.any_open():
        return None
    opened = open_sessions.find_open(find())
    found = opened.session() if opened is not None else None
    return found if isinstance(found, Session) else None


class Session(DeviceSharing):
    """A running optimization; made by `pgmo.optimize`.

    Attributes:
        history: one `IterationStatistics` per iteration so far.

    Example:
        >>> with pgmo.optimize() as session:  # doctest: +SKIP
        ...     for batch in loader:
        ...         with session.iteration():
        ...             train_step(batch)
        >>> print(session.summary())  # doctest: +SKIP
    """

    def __init__(self, options: Options, adapter: Callable[[], Adapter]) -> None:
        self._options = options
        self._find_adapter = adapter
        super().__init__()
        self._closed_by: threading.Thread | None = None
        self._busy = self._to_be_closed = False
        self._process = 0
        self.shares_card = True  # with other sessions on its device
        self._pass_step: Callable[[], bool] = _never  # ends an iteration that need not be looked at

    # --- for the loop ---------------------------------------------------------------------------

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Marks one iteration. An exception ends it early; the session goes on unharmed.

        Any thread may call it. Of threads that train at the same time one is served: the others go
        on with the framework's own allocator.

        Raises:
            SessionError: when the session is not open, or the calling thread is in a pause or in
                another iteration.
        """
        thread = threading.current_thread()
        with exclusive():
            served = self._is_open("iteration()")
        with self._turn(served) as served:
            with exclusive():
                if served := served and self._is_open("iteration()"):
                    self._known.turns.begin_iteration()
            complete = False
            try:
                yield
                complete = True
            finally:
                if served and not self._is_forked:
                    with exclusive():
                        if self._open and self._known.turns.leave_iteration(thread):
                            self._end_iteration(complete)

    def step(self) -> None:
        """Ends an iteration: call it once at the end of each, instead of `iteration()`.

        Any thread may call it, as with `iteration()`.

        Raises:
            SessionError: when the session is not open, or the calling thread is in a pause or in
                `iteration()`.
        """
        seat = self._opened.seat if self._opened is not None else None
        shared = seat is not None and seat.shared
        if shared or not self._pass_step():
            with exclusive():
                if not self._is_open("step()"):
                    return
                counted = seat is None or not shared or seat.held
                if counted and self._known.turns.ends_iteration():
                    self._end_iteration(complete=True)
        if shared or self._known.among is not None:  # others have theirs before the next one
            self._known.give_turn()
            self._take_turn()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Delegates everything inside to the framework: evaluation, logging, checkpoints.

        On a thread of its own, beside a loop that goes on, it is about that thread alone.

        Raises:
            SessionError: when the session is not open.
        """
        token, seat = None, self._opened.seat if self._opened is not None else None
        held = seat is not None and seat.held
        try:
            with exclusive():
                token = self._known.turns.pause() if self._is_open("pause()") else None
            if seat is not None and held:
                seat.give()  # others go on meanwhile
            yield
        finally:
            if token is not None and not self._is_forked:
                with exclusive():
                    self._known.turns.resume(token)
                if seat is not None and held:
                    seat.take()

    @property
    def give_way(self) -> Callable[[], object] | None:
        """For whoever opens sessions in other people's programs; see `OpenSession`."""
        return self._known.give_way

    @give_way.setter
    def give_way(self, call: Callable[[], object] | None) -> None:
        self._known.give_way = call

    def count_calls(self) -> CallTurns:
        """From now on its iterations are calls of something: for whoever is told of these.

        Nothing is served but within a call.
        """
        with exclusive():
            state = self._known.lifecycle.state
            engine = state.adapter.engine
            turns = CallTurns(engine, state.warn, self._end_call, state.paused)
            state.turns.close()
            state.turns = turns
        return turns

    # --- opening and closing --------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._opened is not None:
            raise SessionError(
                "this session was used before; call pgmo.optimize() again for another one"
            )
        adapter = self._find_adapter()
        if adapter.unified:
            self._unified = cast("UnifiedAdapter", adapter)
        opened = open_sessions.begin(self, adapter, self._options)
        self._opened = opened
        self._process = os.getpid()
        self._open = True
        if self._unified is None:  # which has to do something after each
            self._pass_step = opened.adapter.engine.pass_step
        try:
            # What comes before the first step is of its iteration.
            if opened.among is not None:
                opened.among.take(opened, opening=True)
        except BaseException:  # Ctrl-C
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Returns to the framework's own allocator; tensors stay valid. Twice is fine.

        Any thread may call it. Others that still train go on, with the framework's allocator.
        """
        with exclusive(), uninterrupted():
            if not self._open:
                return
            if self._busy and not self._is_forked:
                self._to_be_closed = True  # by a signal's handler, in the midst of a boundary
                return
            self._open = False
            self._pass_step = _never
            self._closed_by = threading.current_thread()
            lifecycle = self._known.lifecycle
            self._last = self._summary(with_verdict=True)
            said = open_sessions.end(self._known)
        if said:
            warn_user(said)
        if lifecycle.collector.history_end is None:
            warn_user(
                "a pgmo session ended without a single iteration, so it has done nothing: call "
                "session.step() at the end of each iteration, or wrap each in session.iteration()"
            )

    def leave_to_parent(self) -> None:
        """In a forked child: another session gets the engine, so that this one leaves it alone."""
        self._pass_step = _never

    # --- as a decorator -------------------------------------------------------------------------

    def __call__(self, function: Callable[P, R]) -> Optimized[P, R, Self]:
        """Makes every call of `function` an iteration; the session opens at the first call."""
        return Optimized(self, function)

    # --- parts ----------------------------------------------------------------------------------

    @property
    def _is_forked(self) -> bool:
        """Whether this is a forked child, for which the engine is in bypass."""
        return os.getpid() != self._process

    def _is_open(self, call: str) -> bool:
        """Whether a call has something to do.

        Another thread may have closed the session: then this one cannot know.

        Raises:
            SessionError: when the call cannot be meant.
        """
        if self._open:
            return not self._is_forked
        if self._closed_by not in (None, threading.current_thread()):
            warn_user(
                f"session.{call} does nothing any more: another thread has closed the session"
            )
            return False
        state = "has been closed" if self._lifecycle else "has not been opened"
        raise SessionError(
            f"session.{call} was called, but the session {state}; call it inside "
            "`with pgmo.optimize() as session:`"
        )

    def _end_iteration(self, complete: bool) -> None:
        known = self._known
        if self._busy:
            return  # called by what runs within a boundary: a signal's handler, a finalizer
        try:
            self._busy = True
            known.lifecycle.end_iteration(known.turns.whole() and complete)
            state = known.lifecycle.state
            if self._unified is not None and state.phase is Phase.REPLAY and state.plan is not None:
                self._unified.after_replay(state.plan)
        finally:
            self._busy = False
            if self._to_be_closed:
                self.close()

    def _end_call(self, complete: bool) -> None:
        with exclusive():
            if self._open and not self._is_forked:
                self._end_iteration(complete)


def _never() -> bool:
    """No iteration ends without being looked at."""
    return False
