"""Turns of several sessions on one device: an iteration of one at a time.

    session A   ( iteration )             ( iteration )
    session B                ( iteration )              ( iteration )
    pages       ▓▓▓▓▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓▓               one arena's worth

What lies in an arena lives within an iteration, so sessions that take turns need the largest of
their arenas and not the sum. The engine of a session serves while it has the turn, and is paused
otherwise. Requests outside of all turns come from windows over the same pages.

Who waits is given the turn in the order of asking. Nobody waits for a thread that has ended, nor
longer than a deadline: then the iteration is served from windows.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pgmo.errors import SessionError

TURN_DEADLINE = 60.0
"""Seconds that a session waits for its turn on a device that it shares with others."""

TURN_LOOK = 1.0
"""Seconds after which it checks whether the thread that has the turn still lives."""


class Seat(Protocol):
    """A session's place among those on its device."""

    def running(self) -> threading.Thread | None:
        """The thread that is inside of an iteration of it, begun when it was alone."""

    def begin(self, *, after_others: bool) -> None:
        """It has the turn; `after_others`: another one had it last."""

    def end(self) -> None:
        """It has it no more."""


@dataclass(eq=False)
class CardTurns:
    """Whose turn it is on one device. Any thread may call anything.

    Args:
        deadline: seconds that anybody waits.
        clock: seconds.

    Example:
        >>> turns = CardTurns()
        >>> turns.join(seat)  # doctest: +SKIP
        >>> turns.take(seat)  # doctest: +SKIP
        True
    """

    deadline: float = TURN_DEADLINE
    clock: Callable[[], float] = time.monotonic
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _seats: list[Seat] = field(default_factory=list)
    _waiting: deque[object] = field(default_factory=deque)
    _holder: Seat | None = None
    _thread: threading.Thread | None = None
    _last: Seat | None = None

    def join(self, seat: Seat) -> None:
        """One more session; those that have no turn are paused from now on."""
        with self._changed:
            self._seats.append(seat)
            if len(self._seats) > 1:
                for one in self._seats:
                    inside = one.running()
                    if self._holder is None and inside is not None:
                        self._holder, self._thread, self._last = one, inside, one
                    elif one is not self._holder:
                        one.end()

    def leave(self, seat: Seat) -> None:
        """A session has been closed."""
        with self._changed:
            if seat in self._seats:
                self._seats.remove(seat)
            if self._holder is seat:
                self._holder = self._thread = None
            if self._last is seat:
                self._last = None
            self._changed.notify_all()

    @property
    def shared(self) -> bool:
        """Whether there are several sessions."""
        return len(self._seats) > 1

    def holds(self, seat: Seat) -> bool:
        """Whether it is this session's turn, on the calling thread."""
        return self._holder is seat and self._thread is threading.current_thread()

    def take(self, seat: Seat) -> bool:
        """Waits for the turn.

        Returns:
            False when the deadline has passed. The iteration goes on without.

        Raises:
            SessionError: when the calling thread has the turn of another session.
        """
        me, ticket = threading.current_thread(), object()
        with self._changed:
            if self._thread is me and self._holder is not None:
                raise SessionError(
                    "an iteration of another session on this device goes on in this thread; where "
                    "sessions take turns, put session.iteration() around each iteration, one "
                    "after the other, instead of session.step() behind it"
                )
            self._waiting.append(ticket)
            until = self.clock() + self.deadline
            try:
                while not self._is_free(ticket):
                    rest = until - self.clock()
                    if rest <= 0:
                        return False
                    self._changed.wait(min(rest, TURN_LOOK))
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
            self._holder, self._thread = seat, me
            after_others, self._last = self._last is not seat, seat
            seat.begin(after_others=after_others)
        return True

    def give(self, seat: Seat) -> None:
        """The turn is over, if it was this session's on this thread."""
        with self._changed:
            if not self.holds(seat):
                return
            if len(self._seats) > 1:
                seat.end()
            self._holder = self._thread = None
            self._changed.notify_all()

    def _is_free(self, ticket: object) -> bool:
        if self._thread is not None and not self._thread.is_alive():
            if self._holder is not None:
                self._holder.end()
            self._holder = self._thread = None
        return self._holder is None and self._waiting[0] is ticket
