"""Broker that serves one schedule per card on a Unix socket.

    connections ──lines──▶ schedule ──records──▶ log ──▶ connections
    process ends (pidfd) ──▶ gone       time ──▶ tick

The broker holds no memory of a card and has no CUDA context. Without a broker, clients continue
without turns. If a connection ends without goodbye, its member stays until the process ends,
because the process keeps its pages until then. A process that connects again is the same member.
"""

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pgmo.errors import ShareError
from pgmo.share import protocol
from pgmo.share.address import peer, prepare_folder
from pgmo.share.listener import listen, refuse, take_lock
from pgmo.share.log import Log
from pgmo.share.member import Member
from pgmo.share.processes import ProcessWatch
from pgmo.share.protocol import Lines, Message, encode
from pgmo.share.schedule import Record, Rules, TurnSchedule

_PIECE = 1 << 16
_PAUSE = 1.0
"""Seconds during which no connections are accepted after the descriptors ran out."""


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    pid: int
    number: int  # the member's number, after hello
    lines: Lines = field(default_factory=Lines)
    card: str = ""  # empty until hello


class Broker:
    """Broker, which listens from its construction on, and serves in `run`.

    Args:
        address: path of the socket.
        rules: rules for sharing cards.
        log: file for one line per event; None for no log.
        linger: seconds without clients after which `run` returns; None to run until `stop`.
        clock: returns seconds.

    Raises:
        ShareError: if another broker listens at the address, or its folder is not this user's
            alone.
        FileError: if the log cannot be written.
    """

    def __init__(
        self,
        address: Path,
        rules: Rules,
        log: Path | None = None,
        *,
        linger: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._rules, self._linger, self._clock = address, rules, linger, clock
        self._cards: dict[str, TurnSchedule] = {}
        self._connections: dict[int, _Connection] = {}
        self._next = 1
        self._paused_until: float | None = None
        self._stopping = False
        self._unused_since = clock()
        prepare_folder(address)
        self._lock = take_lock(address)
        try:
            self._log = Log(log)
            self._listener = listen(address)
        except BaseException:
            os.close(self._lock)
            raise
        self._selector = selectors.DefaultSelector()
        self._processes = ProcessWatch(self._selector, self._ended)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain_wake_pipe)
        self._accept_connections()
        begin = {"event": "begin", "pid": os.getpid(), "deadline": rules.deadline}
        self._note({**begin, "patience": rules.patience, "lanes": rules.lanes})

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- serving --------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop`, or until there were no clients for `linger` seconds."""
        while not self._stopping and not self._unused():
            for key, _ in self._selector.select(self._timeout()):
                key.data(key.fileobj)
            now = self._clock()
            if self._paused_until is not None and now >= self._paused_until:
                self._accept_connections()
            for schedule in list(self._cards.values()):
                self._log_and_send(schedule, schedule.tick(now))

    def stop(self) -> None:
        """Make `run` return. Any thread and any signal handler may call it."""
        self._stopping = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def watch(self, descriptor: int, call: Callable[[], object]) -> None:
        """Call a function once, when a descriptor is readable."""

        def ready(_file: object) -> None:
            self._selector.unregister(descriptor)
            call()

        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def close(self) -> None:
        """End all connections. Clients continue without the broker. Repeated calls do nothing."""
        if self._lock < 0:
            return
        self._address.unlink(missing_ok=True)
        self._listener.close()
        now = self._clock()
        for connection in list(self._connections.values()):
            self._close(connection)
        self._processes.close()
        for schedule in list(self._cards.values()):
            last = sorted(schedule.members.values(), key=lambda one: one.asked is None)
            for member in last:  # waiting members first, so that no turn begins
                self._log_and_send(schedule, schedule.leave(member.number, now))
        self._note({"event": "end"})
        self._log.close()
        self._selector.close()
        for descriptor in (self._wake_read, self._wake_write, self._lock):
            os.close(descriptor)
        self._lock = -1

    def _drain_wake_pipe(self, _file: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 64)

    def _unused(self) -> bool:
        if self._linger is None or self._used:
            self._unused_since = self._clock()
            return False
        return self._clock() - self._unused_since >= self._linger

    @property
    def _used(self) -> bool:
        """Return whether there are clients. Connections that only query the status do not count."""
        return bool(self._processes) or any(one.card for one in self._connections.values())

    def _timeout(self) -> float | None:
        ticks = [one.next_tick() for one in self._cards.values()]
        if self._linger is not None and not self._used:
            ticks.append(self._unused_since + self._linger)
        ticks.append(self._paused_until)
        soonest = min((one for one in ticks if one is not None), default=None)
        return None if soonest is None else max(0.0, soonest - self._clock())

    # --- connections ----------------------------------------------------------------------------

    def _accept_connections(self) -> None:
        self._paused_until = None
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self, _listener: object) -> None:
        try:
            connected, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the client has gone
            return
        except OSError as error:  # no descriptor is left
            self._note({"event": "refused", "why": str(error)})
            self._selector.unregister(self._listener)
            self._paused_until = self._clock() + _PAUSE
            return
        connected.setblocking(False)
        pid, user = peer(connected)
        if user != os.geteuid():
            self._note({"event": "refused", "pid": pid, "user": user})
            refuse(connected, "the broker belongs to another user")
            return
        connection = _Connection(connected, pid, self._next)
        self._next += 1
        self._connections[connection.number] = connection
        self._selector.register(
            connected, selectors.EVENT_READ, lambda _file: self._readable(connection)
        )

    def _readable(self, connection: _Connection) -> None:
        if not self._is_open(connection):
            return
        now = self._clock()
        try:
            data = connection.socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection, now)
            return
        try:
            for message in connection.lines.feed(data):
                if self._is_open(connection):
                    self._receive(connection, message, now)
        except ShareError as error:
            self._send(connection, "refused", {"why": str(error)})
            self._drop(connection, now)

    def _receive(self, connection: _Connection, message: Message, now: float) -> None:
        kind = message["kind"]
        if kind == "status":
            cards = [one.status(now) for one in self._cards.values()]
            self._send(connection, "status", {"pid": os.getpid(), "cards": cards})
            return
        if kind == "hello" and not connection.card:
            self._welcome(connection, message, now)
            return
        if not connection.card:
            raise ShareError(f"{kind} before hello")
        schedule = self._cards[connection.card]
        number = connection.number
        if kind == "ask":
            records = schedule.ask(number, now)
        elif kind == "withdraw":
            records = schedule.withdraw(number, now)
        elif kind in ("give", "released"):
            sizes = {name: protocol.size(message, name) for name in ("held", "idle", "free")}
            if kind == "give":
                need = protocol.size(message, "need") if "need" in message else None
                records = schedule.give(number, now, need=need, **sizes)
            else:
                records = schedule.released(number, now, **sizes)
        elif kind == "bye":
            self._drop(connection, now, said_goodbye=True)
            return
        else:
            raise ShareError(f"a client cannot send {kind!r}")
        self._log_and_send(schedule, records)

    def _welcome(self, connection: _Connection, message: Message, now: float) -> None:
        if protocol.size(message, "version") != protocol.VERSION:
            raise ShareError(
                f"the broker uses version {protocol.VERSION} of the protocol, and this client "
                "uses another version; use one version of pgmo for both"
            )
        card = protocol.text(message, "card")
        member = Member(
            connection.number,
            connection.pid,
            protocol.text(message, "name"),
            protocol.priority(message),
            protocol.size(message, "held"),
            protocol.size(message, "idle"),
            self._clock(),
        )
        total, free = protocol.size(message, "total"), protocol.size(message, "free")
        known = self._known_member(card, connection.pid)
        if known is None:
            self._processes.add(connection.number, connection.pid)
        else:
            self._replace_connection(known, connection, card)
        connection.card = card
        schedule = self._cards.setdefault(card, TurnSchedule(card, self._rules))
        if known is None:
            records = schedule.join(member, total, free)
        else:
            records = schedule.rejoin(known, member, total, free)
        promised = {"deadline": self._rules.deadline, "patience": self._rules.patience}
        self._send(connection, "welcome", promised)
        self._log_and_send(schedule, records)

    def _known_member(self, card: str, pid: int) -> int | None:
        """Return the number of a process's member, connected or lost; None if there is none."""
        schedule = self._cards.get(card)
        number = schedule.number_of(pid) if schedule is not None else None
        if number is None:
            return None
        if self._processes.has_ended(number):
            self._ended(number)  # a new process has the same ID
            return None
        return number

    def _replace_connection(self, number: int, connection: _Connection, card: str) -> None:
        """Replace a member's connection by a newer one."""
        former = self._connections.get(number)
        if former is not None:
            self._close(former)
            schedule = self._cards[card]
            self._log_and_send(schedule, schedule.lose(number, self._clock()))
        del self._connections[connection.number]
        connection.number = number
        self._connections[number] = connection

    def _ended(self, number: int) -> None:
        """Remove a member whose process has ended, so that the driver has its pages back."""
        self._processes.remove(number)
        schedule = next(one for one in self._cards.values() if number in one.members)
        now = self._clock()
        connection = self._connections.get(number)
        if connection is not None:
            self._close(connection)
            self._log_and_send(schedule, schedule.lose(number, now))
        self._log_and_send(schedule, schedule.leave(number, now))

    def _is_open(self, connection: _Connection) -> bool:
        return self._connections.get(connection.number) is connection

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.number]
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _drop(self, connection: _Connection, now: float, *, said_goodbye: bool = False) -> None:
        if not self._is_open(connection):
            return
        self._close(connection)
        if not connection.card:
            return
        schedule = self._cards[connection.card]
        watched = connection.number in self._processes
        if watched and not said_goodbye:
            self._log_and_send(schedule, schedule.lose(connection.number, now))
            return
        if watched:
            self._processes.remove(connection.number)
        self._log_and_send(schedule, schedule.leave(connection.number, now))

    # --- messages and log -----------------------------------------------------------------------

    def _log_and_send(self, schedule: TurnSchedule, records: Iterable[Record]) -> None:
        unreachable = []
        for record in records:
            self._note(record)
            connection = self._connections.get(record.get("to", 0))
            if connection is not None and not self._send(connection, record["event"], record):
                unreachable.append(connection)
        for connection in unreachable:
            self._drop(connection, self._clock())
        if not schedule.members:
            self._cards.pop(schedule.card, None)

    def _send(self, connection: _Connection, kind: str, fields: Message) -> bool:
        """Send a message. Return False if the client does not read, or is gone."""
        data = encode(kind, fields)
        try:
            return connection.socket.send(data) == len(data)
        except OSError:
            return False

    def _note(self, record: Record) -> None:
        self._log.write({"t": self._clock(), **record})
