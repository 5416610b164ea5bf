"""The part of `Session` that shares a device: sleep, stages, and turns with other sessions."""

import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from pgmo.allocator.session.open_sessions import OpenSession
from pgmo.allocator.session.report import SessionReport
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted
from pgmo.allocator.sleeping.released import Released, State
from pgmo.errors import SessionError


class DeviceSharing(SessionReport):
    """Sleep, waking, stages and turns; see `Session`."""

    @property
    def _known(self) -> OpenSession:
        """Its parts, once it was opened."""
        assert self._opened is not None
        return self._opened

    @abstractmethod
    def _is_open(self, call: str) -> bool:
        """Whether a call has something to do."""

    @property
    @abstractmethod
    def _is_forked(self) -> bool:
        """Whether this is a forked child."""

    @abstractmethod
    def step(self) -> None:
        """Ends an iteration."""

    @abstractmethod
    def _end_iteration(self, complete: bool) -> None:
        """Does what is to be done at a boundary, exclusively."""

    def release(self, *, state: State | None = None, of: object = None) -> Released:
        """Gives memory back between two iterations, until it is needed again.

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
            self._require_no_iteration("release()", sleeps=state is not None or of is not None)
            return self._known.sleeping.release(state, of)

    def resume(self, released: Released | None = None) -> None:
        """Puts back what `release` has put to sleep, at the same addresses. Twice is fine.

        Also after the session was closed, if there was no memory for it then.

        Args:
            released: what one call of `release` has returned, to wake that alone; by default all.

        Raises:
            SessionError: when the card has too little memory; then it sleeps on. When the session
                was never opened.

        Example:
            >>> session.resume()  # doctest: +SKIP
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
        """A stage of a loop, such as the rollout or the training of reinforcement learning.

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
                    self._require_no_iteration("stage()", sleeps=asleep is not None)
                    entered = True
                    sleeping, ended = self._known.sleeping, self._iterations
                    if asleep is not None:
                        sleep, released = sleeping.put_to_sleep(asleep, state, of_stage=True)
                    sleeping.hand_over()
            yield released
            if entered and self._is_open("stage()") and self._iterations == ended:
                self.step()
        finally:
            if entered:
                with exclusive(), uninterrupted():
                    self._known.sleeping.wake(sleep)
                    self._known.sleeping.hand_over()

    @property
    def _iterations(self) -> int:
        return self._known.lifecycle.collector.iterations

    def _require_no_iteration(self, call: str, *, sleeps: bool) -> None:
        inside = self._known.turns.running()
        if sleeps and inside not in (None, threading.current_thread()):
            raise SessionError(
                f"session.{call} was to put memory to sleep while {inside.name} is inside "
                "session.iteration(), which may use it; call it when that has ended"
            )
        if self._known.turns.is_inside:
            raise SessionError(
                f"session.{call} was called inside session.iteration(), which uses the memory that "
                "it would give back; call it between two iterations"
            )

    # --- turns on a device that several sessions or processes share -------------------------------

    @contextmanager
    def _turn(self, wanted: bool) -> Iterator[bool]:
        """The turn of one iteration; False inside: it could not be had."""
        if not wanted or self._is_forked:
            yield wanted
            return
        seat = self._known.seat
        keeps_seat = seat is not None and seat.held
        whole = False
        try:
            yield self._take_turn()
            whole = True
        finally:
            self._known.give_turn(whole=whole, keeps_seat=keeps_seat)

    def _take_turn(self) -> bool:
        """Waits for the turn; an iteration that another session's arrival has cut ends now."""
        taken, seat = self._known.take_turn(), self._known.seat
        if taken and seat is not None and seat.broken:
            seat.broken = False
            with exclusive():
                if self._open:
                    self._end_iteration(complete=False)
        return taken
