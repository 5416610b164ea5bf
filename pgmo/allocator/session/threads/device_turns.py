"""Turns of several sessions on one device: one iteration at a time.

    session A   ( iteration )             ( iteration )
    session B                ( iteration )              ( iteration )
    pages       ▓▓▓▓▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓▓▓▓▓▓               memory of one arena

Most blocks in an arena live within an iteration, so sessions that take turns need about the memory
of their largest arena, not of all arenas. A session's engine serves during its turn and is paused
otherwise. Windows over the same pages serve requests outside all turns.

Waiting sessions get the turn in order of arrival. If a thread exits while it holds the turn, the
turn becomes free.
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
"""Maximum seconds that a session waits for its turn on a shared device. After this time, the
session runs its iteration without a plan, because another session may never end its turn."""

OWNER_CHECK = 1.0
"""Seconds between checks whether the thread that holds the turn is alive. A thread that exits does
not notify the waiting threads."""

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

PASSED_OVER = (
    "this session has waited {:.0f} s for its turn on the device, so its iteration runs without a "
    "plan, from pages: end the iterations of the other sessions, or close these sessions"
)


@dataclass(eq=False)
class TurnQueue:
    """Queue for the turns of the sessions on one device.

    Args:
        deadline: maximum wait in seconds.
        changed: lock of all fields; notified when the turn may be free.
        members: turns of the sessions on the device.
        waiting: tickets of waiting threads, in order of arrival.
        holder: turn that is held now, or None.
        thread: thread of the holder's iteration, or None.
        last: turn that was held last.
    """

    deadline: float = TURN_DEADLINE
    changed: threading.Condition = field(default_factory=threading.Condition)
    members: list["DeviceTurn"] = field(default_factory=list)
    waiting: deque[object] = field(default_factory=deque)
    holder: "DeviceTurn | None" = None
    thread: threading.Thread | None = None
    last: "DeviceTurn | None" = None


class DeviceTurn:
    """Turn of one session on a device whose pages several sessions share. Thread-safe.

    Args:
        adapter: adapter of the session.
        queue: queue of the device.
        running: returns the thread that is inside an iteration of the session, or None.
        warn: called with a message when a wait for the turn has timed out.
        paused: pauses of the session's engine.
        after_others: called when the turn begins after a turn of another session.

    Attributes:
        is_split: whether the arrival of another session has split an iteration.
        has_foreign_requests: whether another session, which had no turn, allocated during
            iterations of this session.
    """

    def __init__(
        self,
        adapter: "TorchCuda",
        queue: TurnQueue,
        running: Callable[[], threading.Thread | None],
        warn: Callable[[str], object],
        paused: Pauses,
        after_others: Callable[[], object] = lambda: None,
    ) -> None:
        self._adapter = adapter
        self._queue = queue
        self._running = running
        self._warn = warn
        self._pauses, self._paused = paused, False
        self._after_others = after_others
        self._alone = True  # no other session has shared the device
        self._had_turn = False
        self.is_split = self.has_foreign_requests = False
        self._join()

    def _join(self) -> None:
        """Join the queue. If it has several sessions, pause each session without the turn."""
        queue = self._queue
        with queue.changed:
            queue.members.append(self)
            if len(queue.members) == 1:
                return
            for one in queue.members:
                inside = one._running()
                if queue.holder is None and inside is not None:
                    queue.holder, queue.thread, queue.last = one, inside, one
                elif one is not queue.holder:
                    one.end()

    def leave(self) -> None:
        """Leave the queue, after the session was closed."""
        queue = self._queue
        with queue.changed:
            if self in queue.members:
                queue.members.remove(self)
            if queue.holder is self:
                queue.holder = queue.thread = None
            if queue.last is self:
                queue.last = None
            queue.changed.notify_all()
        self._pauses.end(self)

    @property
    def shared(self) -> bool:
        """Return whether other sessions are, or have been, on the device."""
        self._alone = self._alone and len(self._queue.members) <= 1
        return not self._alone

    @property
    def held(self) -> bool:
        """Return whether the calling thread holds this session's turn."""
        return self._queue.holder is self and self._queue.thread is threading.current_thread()

    def take(self) -> bool:
        """Wait for the turn; after the deadline, warn and return False.

        Raise `SessionError` if the calling thread already holds a turn on the device.
        """
        queue = self._queue
        me, ticket = threading.current_thread(), object()
        with queue.changed:
            if queue.thread is me and queue.holder is not None:
                raise SessionError(
                    "this thread is inside an iteration of another session on this device; with "
                    "several sessions, put session.iteration() around each iteration, one after "
                    "the other, instead of calling session.step() at its end"
                )
            queue.waiting.append(ticket)
            until = time.monotonic() + queue.deadline
            try:
                while not self._is_free(ticket) and (rest := until - time.monotonic()) > 0:
                    queue.changed.wait(min(rest, OWNER_CHECK))
                taken = self._is_free(ticket)
            finally:
                queue.waiting.remove(ticket)
                queue.changed.notify_all()
            if taken:
                queue.holder, queue.thread = self, me
                after_others, queue.last = queue.last is not self, self
                self.begin(after_others=after_others)
        if not taken:
            self._warn(PASSED_OVER.format(queue.deadline))
        return taken

    def give(self) -> None:
        """End the turn, if the calling thread holds it."""
        queue = self._queue
        with queue.changed:
            if not self.held:
                return
            if len(queue.members) > 1:
                self.end()
            queue.holder = queue.thread = None
            queue.changed.notify_all()

    def ran_without_turn(self) -> None:
        """Notify the other sessions if this session allocated before its first turn.

        Opening a session takes no turn, because another thread may run its iterations.
        """
        if self._had_turn:
            return
        queue = self._queue
        with queue.changed:
            for one in queue.members:
                one.has_foreign_requests = one.has_foreign_requests or one is not self

    def _is_free(self, ticket: object) -> bool:
        queue = self._queue
        if queue.thread is not None and not queue.thread.is_alive():
            if queue.holder is not None:
                queue.holder.end()
            queue.holder = queue.thread = None
        return queue.holder is None and queue.waiting[0] is ticket

    def begin(self, *, after_others: bool) -> None:
        """Begin the turn. This session may now use idle pages of the other sessions' arenas."""
        if after_others:
            _core.forget_peak(self._adapter.space)
            self._adapter.take_turn()
            self._after_others()
        self._pauses.end(self)
        self._paused, self._had_turn = False, True

    def end(self) -> None:
        """Pause the session's engine, because the session has no turn."""
        if self._paused:
            return
        began = bool(self._adapter.engine.threads())
        self.is_split = began and not self.held
        self._paused = True
        self._pauses.begin(self)
