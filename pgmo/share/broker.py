"""The broker: a schedule for each card, served on a Unix socket.

    connections ──lines──▶ schedule ──records──▶ log ──▶ connections
    process ends (pidfd) ──▶ gone       time ──▶ tick

It holds no memory of any card, has no CUDA context, and keeps nothing that its end would lose:
clients go on without it. A client whose connection ends without goodbye keeps what it has until its
process has ended, for only then does the driver have its pages back.
"""

import contextlib
import fcntl
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
from pgmo.share.log import Log
from pgmo.share.member import Member
from pgmo.share.protocol import Lines, Message, encode
from pgmo.share.schedule import Record, Rules, Schedule

_PIECE = 1 << 16
_MOST_CLIENTS = 1000
"""Connections beyond which new ones are refused: each is a process on a card."""


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    pid: int
    number: int
    lines: Lines = field(default_factory=Lines)
    card: str = ""  # until it has said hello
    watched: int = -1  # the pidfd


class Broker:
    """Listens from the moment it is made, and serves in `run`.

    Args:
        address: of the socket.
        rules: how cards are shared.
        log: a file that gets a line for whatever happens; None for none.
        linger: seconds after the last client has gone, or without a first one, after which `run`
            returns; None: never.
        clock: seconds.

    Raises:
        ShareError: when another broker listens there, or the folder is not this user's alone.
        FileError: when the log cannot be written.

    Example:
        >>> with Broker(Path("/run/user/1000/pgmo/share"), Rules()) as broker:  # doctest: +SKIP
        ...     broker.run()
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
        self._cards: dict[str, Schedule] = {}
        self._connections: dict[int, _Connection] = {}
        self._watched: dict[int, tuple[int, str]] = {}  # pidfd: its client and card
        self._next = 1
        self._stopping = False
        self._unused_since = clock()
        prepare_folder(address)
        self._lock = _lock(address)
        try:
            self._log = Log(log)
            self._listener = _listen(address)
        except BaseException:
            os.close(self._lock)
            raise
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._woken)
        begin = {"event": "begin", "pid": os.getpid(), "deadline": rules.deadline}
        self._note({**begin, "patience": rules.patience, "lanes": rules.lanes})

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- its life -------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until it is stopped, or unused for long enough."""
        while not self._stopping and not self._unused():
            for key, _ in self._selector.select(self._timeout()):
                key.data(key.fileobj)
            now = self._clock()
            for schedule in list(self._cards.values()):
                self._carry_out(schedule, schedule.tick(now))

    def stop(self) -> None:
        """Has `run` return. May be called from any thread, and by a signal's handler."""
        self._stopping = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def watch(self, descriptor: int, call: Callable[[], object]) -> None:
        """Calls something when a descriptor can be read, once."""

        def ready(_file: object) -> None:
            self._selector.unregister(descriptor)
            call()

        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def close(self) -> None:
        """Ends all connections: whoever is there goes on without. Twice is fine."""
        if self._lock < 0:
            return
        self._address.unlink(missing_ok=True)
        self._listener.close()
        now = self._clock()
        for connection in list(self._connections.values()):
            self._close(connection)
        for descriptor in list(self._watched):
            self._forget(descriptor)
        for schedule in list(self._cards.values()):
            last = sorted(schedule.members.values(), key=lambda one: one.asked is None)
            for member in last:  # those that wait first: nobody begins any more
                self._carry_out(schedule, schedule.leave(member.number, now))
        self._note({"event": "end"})
        self._log.close()
        self._selector.close()
        for descriptor in (self._wake_read, self._wake_write, self._lock):
            os.close(descriptor)
        self._lock = -1

    def _woken(self, _file: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 64)

    def _unused(self) -> bool:
        if self._linger is None or self._used:
            self._unused_since = self._clock()
            return False
        return self._clock() - self._unused_since >= self._linger

    @property
    def _used(self) -> bool:
        """Whether there are clients: who only asks how things stand is none."""
        return bool(self._watched) or any(one.card for one in self._connections.values())

    def _timeout(self) -> float | None:
        ticks = [one.next_tick() for one in self._cards.values()]
        if self._linger is not None and not self._used:
            ticks.append(self._unused_since + self._linger)
        soonest = min((one for one in ticks if one is not None), default=None)
        return None if soonest is None else max(0.0, soonest - self._clock())

    # --- connections ----------------------------------------------------------------------------

    def _accept(self, _listener: object) -> None:
        try:
            connected, _ = self._listener.accept()
        except OSError:
            return  # it has gone again, or there are too many files
        connected.setblocking(False)
        pid, user = peer(connected)
        if user != os.geteuid() or len(self._connections) >= _MOST_CLIENTS:
            self._note({"event": "refused", "pid": pid, "user": user})
            with contextlib.suppress(OSError):
                connected.send(encode("refused", {"why": "another user's, or too many"}))
            connected.close()
            return
        connection = _Connection(connected, pid, self._next)
        self._next += 1
        self._connections[connection.number] = connection
        self._selector.register(
            connected, selectors.EVENT_READ, lambda _file: self._readable(connection)
        )

    def _readable(self, connection: _Connection) -> None:
        if connection.number not in self._connections:
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
                if connection.number in self._connections:
                    self._heard(connection, message, now)
        except ShareError as error:
            self._send(connection, "refused", {"why": str(error)})
            self._drop(connection, now)

    def _heard(self, connection: _Connection, message: Message, now: float) -> None:
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
            raise ShareError(f"{kind!r} is no message that a client sends")
        self._carry_out(schedule, records)

    def _welcome(self, connection: _Connection, message: Message, now: float) -> None:
        if protocol.size(message, "version") != protocol.VERSION:
            raise ShareError(f"the broker speaks version {protocol.VERSION}: stop it, and use one")
        card, name = protocol.text(message, "card"), protocol.text(message, "name")
        member = Member(
            connection.number,
            connection.pid,
            name,
            protocol.priority(message),
            protocol.size(message, "held"),
            protocol.size(message, "idle"),
            now,
        )
        total, free = protocol.size(message, "total"), protocol.size(message, "free")
        connection.card = card
        self._watch_process(connection)
        schedule = self._cards.setdefault(card, Schedule(card, self._rules))
        records = schedule.join(member, total, free)
        promised = {"deadline": self._rules.deadline, "patience": self._rules.patience}
        self._send(connection, "welcome", promised)
        self._carry_out(schedule, records)

    def _watch_process(self, connection: _Connection) -> None:
        """Where the system tells when a process ends; else the end of its connection is its end."""
        try:
            connection.watched = os.pidfd_open(connection.pid)
        except OSError:
            return
        descriptor, client = connection.watched, (connection.number, connection.card)
        self._watched[descriptor] = client
        self._selector.register(
            descriptor, selectors.EVENT_READ, lambda _file: self._ended(descriptor, client)
        )

    def _ended(self, descriptor: int, client: tuple[int, str]) -> None:
        """A process has ended, and the driver has its pages back."""
        if self._watched.get(descriptor) != client:
            return  # it has said goodbye in the same moment, and the number may be another's
        number, card = client
        self._forget(descriptor)
        connection = self._connections.get(number)
        if connection is not None:
            connection.watched = -1
            self._close(connection)
        schedule = self._cards[card]
        now = self._clock()
        if connection is not None:
            self._carry_out(schedule, schedule.lose(number, now))
        self._carry_out(schedule, schedule.leave(number, now))

    def _forget(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        del self._watched[descriptor]
        os.close(descriptor)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.number]
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _drop(self, connection: _Connection, now: float, *, said_goodbye: bool = False) -> None:
        if connection.number not in self._connections:
            return
        self._close(connection)
        if not connection.card:
            return
        schedule = self._cards[connection.card]
        if not said_goodbye and connection.watched >= 0:
            self._carry_out(schedule, schedule.lose(connection.number, now))
            return
        if connection.watched >= 0:
            self._forget(connection.watched)
        self._carry_out(schedule, schedule.leave(connection.number, now))

    # --- what is told ---------------------------------------------------------------------------

    def _carry_out(self, schedule: Schedule, records: Iterable[Record]) -> None:
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
        """False: it does not read what it is sent, or has gone."""
        data = encode(kind, fields)
        try:
            return connection.socket.send(data) == len(data)
        except OSError:
            return False

    def _note(self, record: Record) -> None:
        self._log.write({"t": self._clock(), **record})


def _lock(address: Path) -> int:
    """Held by the one broker of an address, to its end.

    Raises:
        ShareError: when another one has it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(address.with_name(f"{address.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ShareError(f"another broker listens at {address}") from error
    return descriptor


def _listen(address: Path) -> socket.socket:
    address.unlink(missing_ok=True)  # of a broker that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(address))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ShareError(f"{address}: {error.strerror}") from error
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener
