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
from typing import TYPE_CHECKING

from pgmo import _core
from pgmo.allocator import tuning
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.errors import SessionError

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

PASSED_OVER = (
    "another session has had the turn on this device for {:.0f} s; iterations go on without a "
    "plan, from pages, until it gives the turn back: end its iterations, or close it"
)


@dataclass(eq=False)
class CardTurns:
    """Whose turn it is on one device. Any thread may call anything.

    Args:
        deadline: seconds that anybody waits.

    Example:
        >>> turns = CardTurns()
        >>> turns.join(seat)  # doctest: +SKIP
        >>> turns.take(seat)  # doctest: +SKIP
        True
    """

    deadline: float = tuning.TURN_DEADLINE
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _seats: list["CardSeat"] = field(default_factory=list)
    _waiting: deque[object] = field(default_factory=deque)
    _holder: "CardSeat | None" = None
    _thread: threading.Thread | None = None
    _last: "CardSeat | None" = None

    def join(self, seat: "CardSeat") -> None:
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

    def leave(self, seat: "CardSeat") -> None:
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

    def holds(self, seat: "CardSeat") -> bool:
        """Whether it is this session's turn, on the calling thread."""
        return self._holder is seat and self._thread is threading.current_thread()

    def take(self, seat: "CardSeat") -> bool:
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
            until = time.monotonic() + self.deadline
            try:
                while not self._is_free(ticket):
                    rest = until - time.monotonic()
                    if rest <= 0:
                        return False
                    self._changed.wait(min(rest, tuning.TURN_LOOK))
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
            self._holder, self._thread = seat, me
            after_others, self._last = self._last is not seat, seat
            seat.begin(after_others=after_others)
        return True

    def give(self, seat: "CardSeat") -> None:
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


class CardSeat:
    """The place of one session among those on its device, which has pages.

    Args:
        adapter: the session's.
        turns: those of the device.
        running: the thread that is inside of an iteration of the session.
        warn: called with a note when a turn was waited for in vain.
        paused: the pauses of the session's engine.
        after_others: called when the turn begins and another session had the last one.

    Attributes:
        broken: whether an iteration was cut by the arrival of another session.
    """

    def __init__(
        self,
        adapter: "TorchCuda",
        turns: CardTurns,
        running: Callable[[], threading.Thread | None],
        warn: Callable[[str], object],
        paused: Pauses,
        after_others: Callable[[], object] = lambda: None,
    ) -> None:
        self._adapter = adapter
        self._turns = turns
        self._warn = warn
        self._after_others = after_others
        self.running = running
        self._alone = True  # so far
        self._pauses, self._paused = paused, False
        self.broken = False
        turns.join(self)

    @property
    def shared(self) -> bool:
        """Whether there are other sessions on the device, or have been."""
        self._alone = self._alone and not self._turns.shared
        return not self._alone

    @property
    def held(self) -> bool:
        """Whether the calling thread has this session's turn."""
        return self._turns.holds(self)

    def take(self) -> bool:
        """Waits for the turn; False: in vain.

        Raises:
            SessionError: when the calling thread has that of another session.
        """
        taken = self._turns.take(self)
        if not taken:
            self._warn(PASSED_OVER.format(self._turns.deadline))
        return taken

    def give(self) -> None:
        """Ends the turn, if the calling thread has it."""
        self._turns.give(self)

    def leave(self) -> None:
        """The session has been closed."""
        self._turns.leave(self)
        self._pauses.end(self)

    # --- what the turns call ----------------------------------------------------------------------

    def begin(self, *, after_others: bool) -> None:
        """It has the turn: what idles in the arenas of others is its own."""
        if after_others:
            _core.forget_peak(self._adapter.space)
            self._adapter.take_turn()
            self._after_others()
        self._pauses.end(self)
        self._paused = False

    def end(self) -> None:
        """It has it no more, or has none yet."""
        if self._paused:
            return
        began = bool(self._adapter.engine.threads())
        self.broken = began and not self._turns.holds(self)
        self._paused = True
        self._pauses.begin(self)
