"""Mark iterations and give memory back: the session as a program holds it.

What is done at the end of an iteration is the state machine's (`lifecycle.py`). What has to be
undone at the end of the session is kept by `open_sessions.py`, so that a session may be lost.
Whatever the program does, requests that are not in the plan go to the framework's own allocator,
so a wrong plan costs memory and never correctness.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.session import open_sessions
from pgmo.allocator.session.optimized import Optimized
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.report import SessionReport
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted
from pgmo.allocator.session.threads.call_turns import CallTurns
from pgmo.allocator.sleeping.released import Released, State
from pgmo.errors import SessionError
from pgmo.user_warnings import warn_user

P = ParamSpec("P")
R = TypeVar("R")


def active_session(find: Callable[[], Adapter]) -> "Session | None":
    """Return the open session of a framework's allocator, if there is one."""
    if not open_sessions.any_open():
        return None
    opened = open_sessions.find_open(find())
    found = opened.session() if opened is not None else None
    return found if isinstance(found, Session) else None


class Session(SessionReport):
    """A running optimization; made by `pgmo.optimize`.

    Attributes:
        give_way: for whoever opens sessions in other people's programs: called, to close this one,
            when the program opens one of its own. None for the program's own.

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
        self._process = 0
        self._pass_step: Callable[[], bool] = _never  # ends an iteration that need not be looked at
        self.shares_card = True  # with other sessions on its device
        self.give_way: Callable[[], object] | None = None

    # --- for the loop ---------------------------------------------------------------------------

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Mark one iteration. An exception ends it early; the session goes on unharmed.

        Any thread may call it. Of threads that train at the same time one is served: the others go
        on with the framework's own allocator.

        Raises:
            SessionError: when the session is not open, or the calling thread is in a pause or in
                another iteration.
        """
        thread, complete = threading.current_thread(), False
        with exclusive():
            takes_turn = is_counted = self._is_open("iteration()")
        keeps_seat = takes_turn and self._known.holds_seat
        try:
            if takes_turn and self._take_turn():
                with exclusive():
                    is_counted = self._is_open("iteration()")
                    if is_counted:
                        self._known.turns.begin_iteration()
            else:
                is_counted = False
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
                self._known.give_turn(whole=complete, keeps_seat=keeps_seat)

    def step(self) -> None:
        """End an iteration: call it once at the end of each, instead of `iteration()`.

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
                if seat is not None and not counted:
                    seat.iterated_without()
                if counted and self._known.turns.ends_iteration():
                    self._end_iteration(complete=True)
        if shared or self._known.among is not None:  # others have theirs before the next one
            self._known.give_turn()
            self._take_turn()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Delegate everything inside to the framework: evaluation, logging, checkpoints.

        Beside a loop that goes on in another thread, only the calling thread is paused.

        Raises:
            SessionError: when the session is not open.
        """
        token = None
        seat = self._known.seat if self._opened is not None and self._known.holds_seat else None
        try:
            with exclusive():
                token = self._known.turns.pause() if self._is_open("pause()") else None
            if seat is not None:
                seat.give()  # others go on meanwhile
            yield
        finally:
            if token is not None and not self._is_forked:
                with exclusive():
                    self._known.turns.resume(token)
                if seat is not None:
                    seat.take()

    def count_calls(self) -> CallTurns:
        """Make calls of something the session's iterations, and serve nothing between them.

        Returns:
            The turns whose `enter()` each call has to call.
        """
        with exclusive():
            state = self._known.lifecycle.state
            turns = CallTurns(state.adapter.engine, state.warn, self._end_call, state.paused)
            state.turns.close()
            state.turns = turns
        return turns

    def __call__(self, function: Callable[P, R]) -> Optimized[P, R, Self]:
        """Make every call of `function` an iteration; the session opens at the first call."""
        return Optimized(self, function)

    # --- opening and closing --------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._opened is not None:
            raise SessionError(
                "this session was used before; call pgmo.optimize() again for another one"
            )
        opened = open_sessions.begin(self, self._find_adapter(), self._options)
        self._opened = opened
        self._process = os.getpid()
        self._open = True
        if not opened.adapter.unified:  # which has to do something after each
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
        """Return to the framework's own allocator; tensors stay valid. Twice is fine.

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
            self._last = lifecycle.summary(with_verdict=True)
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

    # --- memory that is given back --------------------------------------------------------------

    def release(self, *, state: State | None = None, of: object = None) -> Released:
        """Give memory back between two iterations, until it is needed again.

        All pages go in which nothing lives, those of arenas among them. Addresses stay, and the
        next iteration takes pages as it needs them, so nothing has to be undone. Without pages an
        arena goes back as a whole if nothing lives in it, and the next iteration has none.

        With `state`, pages in which optimizer state lives go, too. The tensors stay valid and keep
        their addresses, but may not be used before `resume()`: `optimizer.step()` and calls of
        modules that sleep raise `SessionError`, kernels and copies fail as CUDA says it (`illegal
        memory access`), after which a process can do nothing more on that device.

        Args:
            state: "host" keeps what sleeps on the host, in pinned memory where there is some;
                "drop" does not, and `resume()` brings memory of any content. None: nothing sleeps,
                unless `of` says what.
            of: tensors, modules (parameters, gradients, buffers) or optimizers that sleep; by
                default the optimizers that have stepped since the session was opened.

        Returns:
            Bytes that the card has back, bytes that the host keeps, and bytes that were to sleep
            and cannot: what lies in segments of PyTorch's, as a model does that was built before
            the session, or beside something else in a page.

        Raises:
            OptionError: when `of` or `state` is something else.
            SessionError: when the session is not open, inside `iteration()`, or while a graph is
                captured.

        Example:
            >>> print(session.release(state="host"))  # doctest: +SKIP
            6.00 GiB given back to the card, 2.00 GiB of it kept on the host
            >>> session.resume()  # doctest: +SKIP
        """
        with exclusive(), uninterrupted():
            if not self._is_open("release()"):
                return Released()
            sleeps = state is not None or of is not None
            self._known.turns.require_no_iteration("release()", sleeps=sleeps)
            return self._known.sleeping.release(state, of)

    def resume(self, released: Released | None = None) -> None:
        """Put back what `release` has put to sleep, at the same addresses. Twice is fine.

        Also after the session was closed, if there was no memory for it then.

        Args:
            released: what one call of `release` has returned, to wake that alone; by default all.

        Raises:
            SessionError: when the card has too little memory; then it sleeps on. When the session
                was never opened.
        """
        if self._opened is None:
            raise SessionError("session.resume() was called, but the session has not been opened")
        with exclusive(), uninterrupted():
            self._known.sleeping.resume(released)

    @property
    def asleep(self) -> int:
        """Bytes of state that sleep at the moment."""
        return self._known.sleeping.asleep if self._opened is not None else 0

    @contextmanager
    def stage(
        self, name: str, *, asleep: object = None, state: State = "host"
    ) -> Iterator[Released]:
        """Mark a stage of a loop, such as the rollout or the training of reinforcement learning.

        Its iterations are marked as ever, and have plans of their own, as iterations of another
        structure always have; without a mark, the whole block is one. Idle pages of the stage
        before are used before the card is asked for more.

        Args:
            name: of the stage, the same each time.
            asleep: what the stage does not use: optimizers, modules, tensors. It sleeps inside of
                the block, see `release`.
            state: what becomes of its contents, as in `release`.

        Yields:
            What was given back for it.

        Raises:
            OptionError, SessionError: as `release` does; and `SessionError` at the end, when the
                card has too little memory to wake what sleeps.

        Example:
            >>> with session.stage("rollout", asleep=[optimizer]):  # doctest: +SKIP
            ...     answers = model.generate(prompts)
            >>> with session.stage("training"):  # doctest: +SKIP
            ...     for part in answers.split(8):
            ...         train(part)
            ...         session.step()
        """
        entered, sleep, released = False, None, Released()
        try:
            with exclusive(), uninterrupted():  # a Ctrl-C while it copies is raised at the end
                if self._is_open("stage()"):
                    self._known.turns.require_no_iteration("stage()", sleeps=asleep is not None)
                    entered = True
                    sleeping, collector = self._known.sleeping, self._known.lifecycle.collector
                    ended = collector.iterations
                    if asleep is not None:
                        sleep, released = sleeping.put_to_sleep(asleep, state, of_stage=True)
                    sleeping.hand_over()
            yield released
            if entered and self._is_open("stage()") and collector.iterations == ended:
                self.step()
        finally:
            if entered:
                with exclusive(), uninterrupted():
                    self._known.sleeping.wake(sleep)
                    self._known.sleeping.hand_over()

    # --- parts ----------------------------------------------------------------------------------

    @property
    def _is_forked(self) -> bool:
        """Return whether this is a forked child, for which the engine is in bypass."""
        return os.getpid() != self._process

    def _is_open(self, call: str) -> bool:
        """Return whether a call has something to do.

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

    def _take_turn(self) -> bool:
        """Wait for the turn; an iteration that another session's arrival has cut ends now."""
        taken, seat = self._known.take_turn(), self._known.seat
        if taken and seat is not None and (seat.broken or seat.has_mingled):
            with exclusive():
                if self._open and not self._is_forked:
                    self._end_iteration(complete=False)
                    if seat.has_mingled:
                        self._known.lifecycle.record_anew()
            seat.broken = seat.has_mingled = False
        return taken

    def _end_call(self, complete: bool) -> None:
        with exclusive():
            if self._open and not self._is_forked:
                self._end_iteration(complete)

    def _end_iteration(self, complete: bool) -> None:
        if self._busy:
            return  # called by what runs within a boundary: a signal's handler, a finalizer
        try:
            self._busy = True
            self._known.lifecycle.end_iteration(self._known.turns.whole() and complete)
        finally:
            self._busy = False
            if self._to_be_closed:
                self.close()


def _never() -> bool:
    """Return False: every iteration is examined."""
    return False
