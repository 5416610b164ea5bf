"""Turns of several sessions on one device: an iteration of one at a time.

    session A   ( iteration )             ( iteration )
    session B                ( iteration )              ( iteration )
    pages       ▓▓▓▓▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓▓               one arena's worth

Blocks in an arena live within an iteration, so sessions that take turns need the largest of their
arenas, not the sum. A session's engine serves during its turn and is paused otherwise. Windows over
the same pages serve requests outside all turns.

Waiting sessions get the turn in order of arrival. The turn of an ended thread is free. After a
deadline, the waiting iteration runs without the turn, from windows.
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
"""Maximum seconds that a session waits for its turn on a shared device. Above it, the iteration is
served from windows, so that a session that never yields cannot stop the others."""

TURN_LOOK = 1.0
"""Seconds between checks whether the thread that holds the turn is alive: its end wakes no one."""

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

PASSED_OVER = (
    "another session has had the turn on this device for {:.0f} s; iterations go on without a "
    "plan, from pages, until it gives the turn back: end its iterations, or close it"
)


@dataclass(eq=False)
class CardTurns:
    """Shared state of the seats on one device.

    Args:
        deadline: maximum wait in seconds.
        changed: condition that guards all fields.
        seats: seats of the open sessions.
        waiting: tickets of waiting threads, in order of arrival.
        holder: seat that holds the turn; None if it is free.
        thread: thread that holds the turn.
        last: seat that held the turn last.
    """

    deadline: float = TURN_DEADLINE
    changed: threading.Condition = field(default_factory=threading.Condition)
    seats: list["CardSeat"] = field(default_factory=list)
    waiting: deque[object] = field(default_factory=deque)
    holder: "CardSeat | None" = None
    thread: threading.Thread | None = None
    last: "CardSeat | None" = None


class CardSeat:
    """Place of one session among those on a device with pages. Thread-safe.

    Args:
        adapter: adapter of the session.
        turns: turns of the device.
        running: returns the thread that is inside an iteration of the session, or None.
        warn: called with a message when a wait for the turn has timed out.
        paused: pauses of the session's engine.
        after_others: called when the turn begins and another session had the last one.

    Attributes:
        broken: whether the arrival of another session has split an iteration.
        has_mingled: whether another session without a turn allocated during iterations.
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
        self._alone = True  # no other session has shared the device
        self._had_turn = False
        self.broken = self.has_mingled = False
        self._join()

    def _join(self) -> None:
        """Add this seat. If there are several, pause all sessions that have no turn."""
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
        """Remove this seat, after its session was closed."""
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
        """Return whether other sessions are, or have been, on the device."""
        self._alone = self._alone and len(self._turns.seats) <= 1
        return not self._alone

    @property
    def held(self) -> bool:
        """Return whether the calling thread holds this session's turn."""
        return self._turns.holder is self and self._turns.thread is threading.current_thread()

    def take(self) -> bool:
        """Wait for the turn.

        Returns:
            False if the deadline has passed; the iteration then continues without the turn.

        Raises:
            SessionError: if the calling thread holds the turn of another session.
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
        """End the turn, if the calling thread holds it."""
        turns = self._turns
        with turns.changed:
            if not self.held:
                return
            if len(turns.seats) > 1:
                self.end()
            turns.holder = turns.thread = None
            turns.changed.notify_all()

    def iterated_without(self) -> None:
        """Mark the other sessions as mingled, because this one iterated without its turn.

        This happens before a session's first `step()`: opening a session takes no turn, because
        another thread may use it with `iteration()`. A session that had its turn before lost it by
        the deadline, which does not count.
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
        """Begin the turn: this session may now use idle pages of the others' arenas."""
        if after_others:
            _core.forget_peak(self._adapter.space)
            self._adapter.take_turn()
            self._after_others()
        self._pauses.end(self)
        self._paused, self._had_turn = False, True

    def end(self) -> None:
        """Pause the session's engine, because it has no turn."""
        if self._paused:
            return
        began = bool(self._adapter.engine.threads())
        self.broken = began and not self.held
        self._paused = True
        self._pauses.begin(self)
