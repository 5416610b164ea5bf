"""Client that takes turns on a card from a broker, and gives memory back between turns.

    take() ──ask──▶ broker ──turn──▶ the iteration ──▶ give(): if crowded, idle memory is released
       └ pass, or no broker: the iteration runs without a turn
    listener thread: "crowded" between two turns ──▶ idle memory is released at once

Without a broker, the program runs as if it were alone on the card. The client looks for a broker
again at growing intervals.
"""

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from pgmo.errors import ShareError
from pgmo.share.handshake import shake_hands
from pgmo.share.protocol import VERSION, Lines, Message, encode

GRACE = 5.0
"""Seconds to wait in addition to a broker's maximum wait. Then the client leaves the broker."""

RETRY, LONGEST_RETRY = 1.0, 60.0
"""First and longest interval between searches for a broker, in seconds. The interval doubles with
each search."""


class TurnAnswer(Enum):
    """Answer to a request for a turn."""

    TURN = "turn"
    PASS = "pass"  # the wait was too long
    ALONE = "alone"  # there is no broker


@dataclass(frozen=True)
class Sizes:
    """Bytes of a card.

    `held` are held by a process, `idle` are the part of `held` that is idle between turns, and
    `free` are free on the card.
    """

    held: int
    idle: int
    free: int

    @property
    def lasting(self) -> int:
        """Bytes that stay between turns."""
        return self.held - self.idle


class MemoryHolder(Protocol):
    """Owner of a process's memory on a card. Only one thread at a time calls its methods."""

    def begin(self) -> None:
        """Handle the start of an iteration, with or without a turn."""

    def sizes(self) -> Sizes:
        """Return the current sizes."""

    def give_back(self, *, between_turns: bool) -> None:
        """Release idle memory at the end of a turn, or between turns, perhaps on another thread."""


class Client:
    """Turns of one process on one card. All methods are thread-safe.

    Args:
        address: socket of the broker.
        holder: owner of the process's memory on the card.
        card: name of the card, the same for all processes of the machine.
        total: bytes of the card.
        name: display name of the program.
        priority: each step doubles the process's share of the time on the card.
        notify: called with a message when a broker cannot be used, or is no longer used.
    """

    def __init__(
        self,
        address: Path,
        holder: MemoryHolder,
        *,
        card: str,
        total: int,
        name: str,
        priority: int = 0,
        notify: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self._address, self._holder, self._notify = address, holder, notify
        program = {"name": name, "priority": priority}
        self._hello = {"version": VERSION, "card": card, "total": total, **program}
        self._clock = time.monotonic
        self._changed = threading.Condition(threading.RLock())
        self._socket: socket.socket | None = None
        self._patience = 0.0
        self._answer: TurnAnswer | None = None
        self._waiting = self._passed = False
        self._held = False
        self._crowded = False
        self._next_try, self._retry = 0.0, RETRY
        self._process = os.getpid()
        _clients.add(self)

    # --- turns ----------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Return whether a broker is connected."""
        return self._socket is not None

    @property
    def held(self) -> bool:
        """Return whether this process has the turn."""
        return self._held

    def take(self) -> TurnAnswer:
        """Wait for a turn and return the answer. Without a broker, the answer is `ALONE`."""
        if os.getpid() != self._process:
            return TurnAnswer.ALONE
        with self._changed:
            if self._held:
                return TurnAnswer.TURN
            if not self._connect():
                self._holder.begin()
                return TurnAnswer.ALONE
            self._answer, self._waiting, self._passed = None, True, False
            try:
                self._send("ask", {})
                self._await_answer()
            except BaseException:  # Ctrl-C
                self._waiting = False
                self._refuse_turn()
                raise
            self._waiting = False
            if self._answer is TurnAnswer.TURN:
                self._held = True
            self._passed = self._answer is TurnAnswer.PASS
            self._holder.begin()
            return self._answer or TurnAnswer.ALONE

    def _await_answer(self) -> None:
        until = self._clock() + self._patience + GRACE
        while self._answer is None and self._socket is not None:
            rest = until - self._clock()
            if rest <= 0:
                self._lose("it does not answer")
            else:
                self._changed.wait(rest)

    def give(self, *, whole: bool = True) -> None:
        """End the turn, or the iteration that ran without a turn.

        After an out-of-memory error, an iteration is not `whole`: its peak does not show its need.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            if self._held:
                peak = self._holder.sizes().held
                if self._crowded and self._socket is not None:
                    self._holder.give_back(between_turns=False)
                self._held, self._answer = False, None
                self._report("give", peak if whole else None)
            elif self._passed:
                self._passed = False
                self._give_back_between_turns()

    def close(self) -> None:
        """Leave the broker and release idle memory, which the broker can no longer request."""
        with self._changed:
            if self._socket is not None and os.getpid() == self._process:
                with contextlib.suppress(Exception):  # the card may be broken
                    self._holder.give_back(between_turns=False)
                self._send("bye", {})
            self._disconnect()

    def _refuse_turn(self) -> None:
        """Withdraw the request for a turn. If the turn was already granted, give it back."""
        if self._answer is TurnAnswer.TURN:
            self._answer = None
            self._report("give")
        else:
            self._send("withdraw", {})

    # --- the broker -----------------------------------------------------------------------------

    def _connect(self) -> bool:
        if self._socket is not None:
            return True
        now = self._clock()
        if now < self._next_try:
            return False
        try:
            hello = {**self._hello, **asdict(self._holder.sizes())}
            met, patience, lines, more = shake_hands(self._address, hello)
        except (OSError, ShareError) as error:
            self._next_try = now + self._retry
            if self._retry == RETRY and not isinstance(error, FileNotFoundError):
                self._notify(
                    f"no turns from the broker at {self._address}: {error}; the program "
                    "continues without turns"
                )
            self._retry = min(2 * self._retry, LONGEST_RETRY)
            return False
        self._socket, self._patience, self._retry = met, patience, RETRY
        for message in more:
            self._receive(message)
        self._give_back_between_turns()
        listener = threading.Thread(
            target=self._listen, args=(met, lines), name="pgmo-share", daemon=True
        )
        listener.start()
        return True

    def _listen(self, met: socket.socket, lines: Lines) -> None:
        while True:
            try:
                data = met.recv(1 << 16)
                messages = lines.feed(data)
            except (OSError, ShareError):
                data, messages = b"", []
            with self._changed:
                if self._socket is not met:
                    return
                for message in messages:
                    self._receive(message)
                if not data:
                    self._lose("it has ended")
                    return
                try:
                    self._give_back_between_turns()
                except Exception as error:
                    self._lose(f"{type(error).__name__}: {error}")
                    return

    def _receive(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "turn":
            if self._waiting:
                self._answer = TurnAnswer.TURN
            else:  # no thread waits for the turn any more
                self._report("give")
        elif kind == "pass":
            self._answer = TurnAnswer.PASS
        elif kind == "crowded":
            self._crowded = bool(message.get("crowded"))
        self._changed.notify_all()

    def _give_back_between_turns(self) -> None:
        """Release idle memory if the card is crowded and no turn has begun."""
        if self._crowded and not self._held and self._answer is not TurnAnswer.TURN:
            if self._holder.sizes().idle:
                self._holder.give_back(between_turns=True)
            self._report("released")

    def _report(self, kind: str, peak: int | None = None) -> None:
        sizes = self._holder.sizes()
        fields = asdict(sizes)
        if peak is not None:
            fields["need"] = max(0, peak - sizes.lasting)
        self._send(kind, fields)

    def _send(self, kind: str, fields: Message) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendall(encode(kind, fields))
        except OSError as error:
            self._lose(str(error))

    def _lose(self, why: str) -> None:
        if self._socket is not None:
            self._notify(
                f"the broker at {self._address} is no longer used ({why}); the program continues "
                "without turns"
            )
        self._disconnect()
        self._next_try = self._clock() + self._retry

    def _disconnect(self) -> None:
        met, self._socket = self._socket, None
        self._crowded, self._answer = False, None
        if met is not None:
            with contextlib.suppress(OSError):
                met.shutdown(socket.SHUT_RDWR)  # this ends the listener
            met.close()
        self._changed.notify_all()

    def after_fork(self) -> None:
        """Drop the connection in a forked child, because the connection belongs to the parent."""
        met, self._socket = self._socket, None
        self._changed = threading.Condition(threading.RLock())
        self._held = False
        if met is not None:
            met.close()


_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client.after_fork()


os.register_at_fork(after_in_child=_after_fork)
