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
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.errors import SessionError

TURN_DEADLINE = 60.0
"""Seconds that a session waits for its turn on a device that it shares with others."""

TURN_LOOK = 1.0
"""Seconds after which it checks whether the thread that has the turn still lives."""

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

PASSED_OVER = (
    "another session has had the turn on this device for {:.0f} s; iterations go on without a "
    "plan, from pages, until it gives the turn back: end its iterations, or close it"
)


@dataclass(eq=False)
class CardTurns:
    """Hold whose turn it is on one device, for its seats.

    Args:
        deadline: seconds that anybody waits.
    """

    deadline: float = TURN_DEADLINE
    changed: threading.Condition = field(default_factory=threading.Condition)
    seats: list["CardSeat"] = field(default_factory=list)
    waiting: deque[object] = field(default_factory=deque)
    holder: "CardSeat | None" = None
    thread: threading.Thread | None = None
    last: "CardSeat | None" = None


class CardSeat:
    """The place of one session among those on its device, which has pages. For any thread.

    Args:
        adapter: the session's.
        turns: those of the device.
        running: the thread that is inside of an iteration of the session.
        warn: called with a note when a turn was waited for in vain.
        paused: the pauses of the session's engine.
        after_others: called when the turn begins and another session had the last one.

    Attributes:
        broken: whether an iteration was cut by the arrival of another session.
        has_mingled: whether iterations mingled with those of a session that had no turn yet.
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
        self._running = running
        self._warn = warn
        self._pauses, self._paused = paused, False
        self._after_others = after_others
        self._alone = True  # so far
        self._had_turn = False
        self.broken = self.has_mingled = False
        self._join()

    def _join(self) -> None:
        """Sessions that have no turn are paused from now on, if there are several."""
        turns = self._turns
        with turns.changed:
            turns.seats.append(self)
            if len(turns.seats) == 1:
                return
            for one in turns.seats:
                inside = one._running()
                if turns.holder is None and inside is not None:
                    turns.holder, turns.thread, turns.last = one, inside, one
                elif one is not turns.holder:
                    one.end()

    def leave(self) -> None:
        """The session has been closed."""
        turns = self._turns
        with turns.changed:
            if self in turns.seats:
                turns.seats.remove(self)
            if turns.holder is self:
                turns.holder = turns.thread = None
            if turns.last is self:
                turns.last = None
            turns.changed.notify_all()
        self._pauses.end(self)

    @property
    def shared(self) -> bool:
        """Return whether there are other sessions on the device, or have been."""
        self._alone = self._alone and len(self._turns.seats) <= 1
        return not self._alone

    @property
    def held(self) -> bool:
        """Return whether the calling thread has this session's turn."""
        return self._turns.holder is self and self._turns.thread is threading.current_thread()

    def take(self) -> bool:
        """Waits for the turn.

        Returns:
            False when the deadline has passed. The iteration goes on without.

        Raises:
            SessionError: when the calling thread has the turn of another session.
        """
        turns = self._turns
        me, ticket = threading.current_thread(), object()
        with turns.changed:
            if turns.thread is me and turns.holder is not None:
                raise SessionError(
                    "an iteration of another session on this device goes on in this thread; where "
                    "sessions take turns, put session.iteration() around each iteration, one "
                    "after the other, instead of session.step() behind it"
                )
            turns.waiting.append(ticket)
            until = time.monotonic() + turns.deadline
            try:
                while not self._is_free(ticket) and (rest := until - time.monotonic()) > 0:
                    turns.changed.wait(min(rest, TURN_LOOK))
                taken = self._is_free(ticket)
            finally:
                turns.waiting.remove(ticket)
                turns.changed.notify_all()
            if taken:
                turns.holder, turns.thread = self, me
                after_others, turns.last = turns.last is not self, self
                self.begin(after_others=after_others)
        if not taken:
            self._warn(PASSED_OVER.format(turns.deadline))
        return taken

    def give(self) -> None:
        """Ends the turn, if the calling thread has it."""
        turns = self._turns
        with turns.changed:
            if not self.held:
                return
            if len(turns.seats) > 1:
                self.end()
            turns.holder = turns.thread = None
            turns.changed.notify_all()

    def iterated_without(self) -> None:
        """The session has iterated without its turn, beside whoever had it.

        Sessions do before their first `step()`: to open one takes no turn, for it may be meant for
        `iteration()` in another thread. Later ones do where others take too long.
        """
        if self._had_turn:
            return
        turns = self._turns
        with turns.changed:
            for one in turns.seats:
                one.has_mingled = one.has_mingled or one is not self

    def _is_free(self, ticket: object) -> bool:
        turns = self._turns
        if turns.thread is not None and not turns.thread.is_alive():
            if turns.holder is not None:
                turns.holder.end()
            turns.holder = turns.thread = None
        return turns.holder is None and turns.waiting[0] is ticket

    def begin(self, *, after_others: bool) -> None:
        """It has the turn: what idles in the arenas of others is its own."""
        if after_others:
            _core.forget_peak(self._adapter.space)
            self._adapter.take_turn()
            self._after_others()
        self._pauses.end(self)
        self._paused, self._had_turn = False, True

    def end(self) -> None:
        """It has it no more, or has none yet."""
        if self._paused:
            return
        began = bool(self._adapter.engine.threads())
        self.broken = began and not self.held
        self._paused = True
        self._pauses.begin(self)
