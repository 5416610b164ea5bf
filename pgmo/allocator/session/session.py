"""Session object, with which a program marks iterations and releases memory."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn, ParamSpec, Self, TypeVar

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import adapter_of
from pgmo.allocator.session import open_sessions
from pgmo.allocator.session.optimized import Optimized
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.report import SessionReport
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted
from pgmo.allocator.session.threads.call_turns import CallTurns
from pgmo.allocator.sleeping.sleeping import Released, State
from pgmo.errors import SessionError
from pgmo.user_warnings import warn_user

P = ParamSpec("P")
R = TypeVar("R")


def active_session(device: object, framework: str = "torch") -> "Session | None":
    """Return an open session of a device; None if there is none."""
    opened = None
    if open_sessions.any_open():  # make an adapter only if needed
        opened = open_sessions.find_open(adapter_of(device, framework))
    return None if opened is None else opened.session()


class Session(SessionReport):
    """Session that records, plans and serves a program's iterations; made by `pgmo.optimize`.

    Args:
        options: the checked options.
        adapter: function that returns the adapter. It is called when the session opens.

    Attributes:
        shares_card: whether the session may take turns with other sessions and processes.
        on_user_session: callback that closes a session that pgmo has opened by itself. It is called
            when the program opens a session on the device. None for the program's own sessions.

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
        self._busy = self._to_be_closed = False
        self._closed_by: threading.Thread | None = None
        self.shares_card = True
        self.on_user_session: Callable[[], object] | None = None

    # --- for the loop ---------------------------------------------------------------------------

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Mark the `with` block as one iteration. After an exception, the session stays usable.

        Any thread may call this. If several threads train at the same time, slots serve only one
        thread. After another thread has closed the session, this only warns.

        Raises:
            SessionError: if the session is not open, its iterations are calls, or the calling
                thread is inside a pause or another iteration on the device.
        """
        thread, complete = threading.current_thread(), False
        with exclusive():
            takes_turn = self._is_open("iteration()")
        keeps_device_turn = takes_turn and self._known.held_turn is not None
        try:
            is_counted = takes_turn and self._take_turn()
            if is_counted:
                with exclusive():
                    is_counted = self._is_open("iteration()")
                    if is_counted:
                        self._known.turns.begin_iteration()
            try:
                yield
                complete = True
            finally:
                if is_counted and not self._is_forked:
                    with exclusive():
                        if self._open and self._known.turns.leave_iteration(thread):
                            self._end_iteration(complete)
        finally:
            if takes_turn:
                self._known.give_turn(whole=complete, keeps_device_turn=keeps_device_turn)

    def step(self) -> None:
        """End an iteration. Call this once at the end of each iteration, instead of `iteration()`.

        Any thread may call this, as with `iteration()`.

        Raises:
            SessionError: if the session is not open, its iterations are calls, or the calling
                thread is inside a pause or `iteration()`.
        """
        opened = self._opened
        turn = opened.device_turn if opened is not None else None
        shared = turn is not None and turn.shared
        if shared or opened is None or not opened.pass_step():
            with exclusive():
                if not self._is_open("step()"):
                    return
                counted = turn is None or not shared or turn.held
                if turn is not None and not counted:
                    turn.ran_without_turn()
                if counted and self._known.turns.follows_another:
                    self._separate_steps()
                if counted and self._known.turns.ends_iteration():
                    self._end_iteration(complete=True)
        if shared or self._known.process_turns is not None:
            self._known.give_turn()  # other sessions run before the next iteration
            self._take_turn()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Serve no request from a slot inside the `with` block, for evaluation or checkpoints.

        While another thread continues its iterations, only the calling thread is paused.

        Raises:
            SessionError: if the session is not open.
        """
        token = None
        turn = self._opened.held_turn if self._opened is not None else None
        try:
            with exclusive():
                token = self._known.turns.pause() if self._is_open("pause()") else None
            if turn is not None:
                turn.give()  # other sessions may run during the pause
            yield
        finally:
            if token is not None and not self._is_forked:
                with exclusive():
                    self._known.turns.resume(token)
                if turn is not None:
                    turn.take()

    def count_calls(self) -> CallTurns:
        """Treat calls of a function or module as iterations. Requests between calls get no slots.

        Returns:
            The turns. Call `enter()` when a call begins, and its result when the call ends.
        """
        with exclusive():
            state = self._known.lifecycle.state
            turns = CallTurns(state.adapter.engine, state.warn, self._end_call, state.paused)
            state.turns.close()
            state.turns = turns
        return turns

    def __call__(self, function: Callable[P, R]) -> Optimized[P, R, Self]:
        """Return `function` with each call as an iteration; the first call opens the session."""
        return Optimized(self, function)

    # --- opening and closing --------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._opened is not None:
            raise SessionError(
                "this session was used before; call pgmo.optimize() again for a new session"
            )
        opened = open_sessions.begin(self, self._find_adapter(), self._options)
        self._opened = opened
        self._open = True
        try:
            # Requests before the first step belong to the first iteration, which needs the turn.
            if opened.process_turns is not None:
                opened.process_turns.take(opened, opening=True)
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
        """End the session. Tensors stay valid, and later requests get no slots.

        Any thread may call this, repeatedly. If a signal handler calls this while an iteration
        ends, the session closes afterwards.
        """
        with exclusive(), uninterrupted():
            if not self._open:
                return
            if self._busy and not self._is_forked:
                # A signal handler has called `close` during the end of an iteration.
                self._to_be_closed = True
                return
            self._open = False
            self._closed_by = threading.current_thread()
            lifecycle = self._known.lifecycle
            self._last = lifecycle.summary(with_verdict=True)
            open_sessions.end(self._known)
        if lifecycle.collector.history_end is None:
            warn_user(
                "a pgmo session ended without a single iteration, so it made no plan: call "
                "session.step() at the end of each iteration, or put each iteration into "
                "session.iteration()"
            )

    # --- memory that is given back --------------------------------------------------------------

    def release(self, *, state: State | None = None, of: object = None) -> Released:
        """Give idle memory back to the card between two iterations.

        All pages without live blocks are unmapped, including pages of arenas. Addresses stay
        reserved and the next iteration maps pages as needed, so the program need not undo this.
        Without pages, an arena without live blocks is freed as a whole. Then slots serve no request
        of the next iteration.

        With `state` or `of`, pages of optimizer state or of the given objects are unmapped, too.
        The sleeping tensors keep their addresses but must not be used before `resume()`:
        `optimizer.step()` and calls of sleeping modules raise `SessionError`. Kernels and copies
        that use a sleeping tensor fail with CUDA's `illegal memory access`. After this error, the
        process can no longer use the device.

        Args:
            state: "host" copies the sleeping contents to the host, to pinned memory if available.
                "drop" discards them; after `resume()` the contents are undefined. Default: "host"
                if `of` is given; otherwise nothing sleeps.
            of: tensors, modules (parameters, gradients, buffers) or optimizers to put to sleep.
                Default: the optimizers that have stepped since pgmo first used pages.

        Returns:
            Bytes given back to the card, bytes kept on the host, and bytes that could not sleep.
            Bytes cannot sleep if they lie in PyTorch's own segments (like a model built before the
            session), share a page with other blocks, or are used by another process.

        Raises:
            OptionError: if `of` or `state` has an invalid value.
            SessionError: if the session is not open, during graph capture, or during an iteration.

        Example:
            >>> print(session.release(state="host"))  # doctest: +SKIP
            6.00 GiB given back to the card, 2.00 GiB of it kept on the host
            >>> session.resume()  # doctest: +SKIP
        """
        with exclusive(), uninterrupted():
            if not self._is_open("release()"):
                return Released()
            sleeps = state is not None or of is not None
            self._known.turns.require_no_iteration("session.release()", sleeps=sleeps)
            return self._known.sleeping.release(state, of)

    def resume(self, released: Released | None = None) -> None:
        """Restore the memory that `release` put to sleep, at the same addresses.

        Repeated calls have no effect. If `close()` could not restore all memory, free memory on the
        card and call `resume()`.

        Args:
            released: the result of one `release` call, to wake only the memory that this call put
                to sleep. Default: all sleeping memory.

        Raises:
            SessionError: if the card has too little memory, so that state stays asleep; or if the
                session was never opened.
        """
        if self._opened is None:
            raise SessionError("session.resume() was called, but the session has not been opened")
        with exclusive(), uninterrupted():
            self._known.sleeping.resume(released)

    def stage(self, *_: object, **_options: object) -> NoReturn:
        """Raise a SessionError that names `pgmo.phase`, which has replaced this method."""
        raise SessionError(
            "session.stage() was removed: use `with pgmo.phase(name, asleep=[...]):`, which "
            "restores memory at the beginning of the phase that needs it"
        )

    @property
    def asleep(self) -> int:
        """Bytes of state that are asleep now."""
        return self._known.sleeping.asleep if self._opened is not None else 0

    # --- parts ----------------------------------------------------------------------------------

    @property
    def _is_forked(self) -> bool:
        """Return whether a parent process opened the session. A fork's child serves no slots."""
        return self._opened is not None and os.getpid() != self._opened.process

    def _is_open(self, call: str) -> bool:
        """Return whether a call has an effect. If another thread has closed the session, warn.

        Raises:
            SessionError: if the session was never opened, or this thread has closed it.
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

    def _take_turn(self) -> bool:
        """Wait for the turns, and end a split iteration; return False if the wait timed out."""
        taken, turn = self._known.take_turn(), self._known.device_turn
        if taken and turn is not None and (turn.is_split or turn.has_foreign_requests):
            with exclusive():
                if self._open and not self._is_forked:
                    self._end_iteration(complete=False)
                    if turn.has_foreign_requests:
                        self._known.lifecycle.record_anew()
            turn.is_split = turn.has_foreign_requests = False
        return taken

    def _end_call(self, complete: bool) -> None:
        with exclusive():
            if self._open and not self._is_forked:
                self._end_iteration(complete)

    def _separate_steps(self) -> None:
        """Make each step an iteration, because joined steps would be of two threads."""
        if self._known.lifecycle.joins_steps and not self._busy:
            self._known.lifecycle.count_each_step()
            self._end_iteration(complete=False)

    def _end_iteration(self, complete: bool) -> None:
        if self._busy:
            return  # called by a signal handler or finalizer during the end of an iteration
        try:
            self._busy = True
            turn = self._known.device_turn
            if self._known.process_turns is not None or (turn is not None and turn.shared):
                self._known.lifecycle.count_each_step()
            self._known.lifecycle.end_iteration(self._known.turns.whole() and complete)
        finally:
            self._busy = False
            if self._to_be_closed:
                self.close()
