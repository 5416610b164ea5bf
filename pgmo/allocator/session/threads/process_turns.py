"""Turns of this process on a card that it shares. All its sessions on a device share a turn.

    session A   ( iteration )                  ( iteration )
    session B                ( iteration )
    process     (        its turn        )     ( its turn  )      a broker decides when (pgmo/share)

The turn begins when the first session takes it and ends when the last session gives it back. If not
all processes fit on the card at once, the process keeps no idle page between two turns.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.session.threads.card_memory import card_memory
from pgmo.locks import new_lock
from pgmo.share.address import PRIORITY, VARIABLE
from pgmo.share.client import Client, TurnAnswer
from pgmo.share.protocol import MOST_PRIORITY
from pgmo.world import world

PASSED_OVER = (
    "pgmo waited too long for a turn on this card, so this iteration runs without a turn, in the "
    "remaining memory; `pgmo share --status` shows which process has the turn"
)

SEVERAL_RANKS = (
    "ranks of one job take no turns with other jobs: each rank would wait on its own card while "
    "the other ranks wait for it in a collective"
)


class ProcessTurns:
    """Turns of this process on one device. Thread-safe.

    Attributes:
        sessions: the open sessions that share the turns.
    """

    def __init__(self, client: Client, notify: Callable[[str], object]) -> None:
        self._client, self._notify = client, notify
        self.sessions: set[object] = set()
        self._asking = new_lock()
        self._inside: set[tuple[object, threading.Thread | None]] = set()
        self._guard = new_lock()
        self._process = os.getpid()

    def take(self, session: object, *, opening: bool = False) -> None:
        """Wait for the turn, unless the process has it. If no turn comes in time, warn and return.

        Args:
            session: the session that needs the turn.
            opening: whether the session has just been opened. A turn for the opening ends with the
                session's first iteration, on any thread.
        """
        if os.getpid() != self._process:
            return
        with self._asking:
            own = (session, None if opening else threading.current_thread())
            with self._guard:
                self._inside = {one for one in self._inside if one[1] is None or one[1].is_alive()}
                self._inside.add(own)  # so that no other session ends a turn that is held already
            try:
                answer = self._client.take()
            except BaseException:  # Ctrl-C
                with self._guard:
                    self._inside.discard(own)
                raise
            if answer is TurnAnswer.PASS:
                self._notify(PASSED_OVER)

    def give(self, session: object, *, whole: bool = True) -> None:
        """End the calling thread's turn of a session. Repeated calls have no effect.

        The process gives its turn back once none of its sessions has a turn. If `whole` is False,
        the iteration was incomplete, and its peak is not reported to the broker.
        """
        if os.getpid() != self._process:
            return
        with self._guard:
            before = len(self._inside)
            self._inside -= {(session, None), (session, threading.current_thread())}
            if len(self._inside) == before or self._inside:
                return
            self._client.give(whole=whole)

    def leave(self, session: object) -> None:
        """Give back all turns of a closed session, including those of its other threads."""
        with self._guard:
            self._inside = {one for one in self._inside if one[0] is not session}
            if not self._inside and os.getpid() == self._process:
                self._client.give()

    def close(self) -> None:
        """Disconnect from the broker, after the last session on the device was closed."""
        self._client.close()


_turns: dict[str, ProcessTurns] = {}
"""Turns by device."""


def join(
    session: object,
    adapter: Adapter,
    give_back: Callable[[], object],
    warn: Callable[[str], object],
) -> ProcessTurns | None:
    """Add a session to the turns of its device, and return them; None if there are no turns.

    A process takes no turns if `PGMO_SHARE` names no broker, the process is a rank of a job, or the
    device's memory cannot be freed between turns (`card_memory`).
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        return None
    if world() is not None:
        warn(SEVERAL_RANKS)
        return None
    if adapter.device not in _turns:
        found = card_memory(adapter, give_back)
        if found is None:
            return None
        holder, key, total = found
        name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
        client = Client(
            Path(path),
            holder,
            card=key,
            total=total,
            name=name,
            priority=_priority(warn),
            notify=warn,
        )
        _turns[adapter.device] = ProcessTurns(client, warn)
    turns = _turns[adapter.device]
    turns.sessions.add(session)
    return turns


def leave(session: object, device: str, turns: ProcessTurns) -> None:
    """Remove a closed session from the turns of its device. Repeated calls have no effect."""
    turns.leave(session)
    turns.sessions.discard(session)
    if _turns.get(device) is turns and not turns.sessions:
        del _turns[device]
        turns.close()


def _priority(warn: Callable[[str], object]) -> int:
    text = os.environ.get(PRIORITY, "0")
    with suppress(ValueError):
        if abs(int(text)) <= MOST_PRIORITY:
            return int(text)
    warn(f"{PRIORITY}={text}: give a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    return 0
