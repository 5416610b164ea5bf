"""Turns of this process among those that share a card: all of its sessions on a device have one.

    session A   ( iteration )                  ( iteration )
    session B                ( iteration )
    process     (        its turn        )     ( its turn  )      a broker says when (pgmo/share)

A process has its turn from the first session that wants it to the last that gives it back, and
keeps no idle page between two turns where the card is crowded.
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
from pgmo.share.client import Client, Registration, TurnAnswer
from pgmo.share.protocol import MOST_PRIORITY
from pgmo.world import world

PASSED_OVER = (
    "another process has had the turn on this card for too long; iterations go on without one, in "
    "what it leaves, until it gives it back: `pgmo share --status` shows which one"
)

SEVERAL_RANKS = (
    "ranks of one job take no turns with other jobs: each would wait on its own card while the "
    "others wait for it in a collective"
)


class ProcessTurns:
    """Whose turn it is on one device, as far as this process is concerned. For any thread.

    Args:
        client: asks the broker.
        told: gets a sentence when a turn was waited for in vain.
    """

    def __init__(self, client: Client, told: Callable[[str], object]) -> None:
        self._client, self._told = client, told
        self._asking = new_lock()
        self._inside: set[tuple[object, threading.Thread | None]] = set()
        self._guard = new_lock()
        self._process = os.getpid()

    def take(self, session: object, *, opening: bool = False) -> None:
        """Waits for the turn, unless the process has it. Whatever comes of it, go on.

        Args:
            session: the one that wants it.
            opening: it has just been opened; the turn is over with its first iteration, on whatever
                thread.
        """
        if os.getpid() != self._process:
            return
        with self._asking:
            with self._guard:
                self._inside = {one for one in self._inside if one[1] is None or one[1].is_alive()}
            if self._client.take() is TurnAnswer.PASS:
                self._told(PASSED_OVER)
            with self._guard:
                self._inside.add((session, None if opening else threading.current_thread()))

    def give(self, session: object, *, whole: bool = True) -> None:
        """A session has no use for it any more; twice is fine.

        Args:
            session: the one.
            whole: whether its iteration ended as iterations do.
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
        """A session has been closed, whoever of its threads is in an iteration."""
        with self._guard:
            self._inside = {one for one in self._inside if one[0] is not session}
            if not self._inside and os.getpid() == self._process:
                self._client.give()

    def close(self) -> None:
        """The last session on the device has been closed."""
        self._client.close()


_turns: dict[str, tuple[ProcessTurns, set[object]]] = {}
"""By device: the turns, and the sessions that use them."""


def join(
    session: object,
    adapter: Adapter,
    give_back: Callable[[], object],
    warn: Callable[[str], object],
) -> ProcessTurns | None:
    """Return the turns of a session's device; None where nobody shares it.

    Where `PGMO_SHARE` names no broker, nothing is done and nothing is looked for.

    Args:
        session: identifies it, up to `leave`.
        adapter: of the session.
        give_back: gives back what idles in its arenas.
        warn: called with notes for the session's summary.
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
        registration = Registration(key, total, name, _priority(warn))
        client = Client(Path(path), registration, holder, warn)
        _turns[adapter.device] = ProcessTurns(client, warn), set()
    turns, users = _turns[adapter.device]
    users.add(session)
    return turns


def leave(session: object, device: str, turns: ProcessTurns) -> None:
    """A session has been closed. Twice is fine."""
    turns.leave(session)
    known, users = _turns.get(device, (None, set()))
    users.discard(session)
    if known is turns and not users:
        del _turns[device]
        turns.close()


def _priority(warn: Callable[[str], object]) -> int:
    text = os.environ.get(PRIORITY, "0")
    with suppress(ValueError):
        if abs(int(text)) <= MOST_PRIORITY:
            return int(text)
    warn(f"{PRIORITY}={text}: give a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    return 0
