"""Connection of a client to the broker, and the first messages."""

import os
import socket
import struct
from pathlib import Path
from typing import Any

from pgmo.errors import ShareError
from pgmo.share.address import peer, refuse_others
from pgmo.share.protocol import Lines, Message, encode

GREETING = 2.0
"""Seconds within which a broker must answer a greeting. Later, a `TimeoutError` is raised."""


def shake_hands(address: Path, hello: Message) -> tuple[socket.socket, float, Lines, list[Message]]:
    """Connect to a broker and greet it; raise the errors of `connect`, or `ShareError`.

    Returns:
        The connection, the broker's maximum wait in seconds, the decoder, and further messages.
    """
    connection, lines = connect(address), Lines()
    try:
        connection.sendall(encode("hello", hello))
        first, *further = _answer(connection, lines, "it has closed the connection")
        if first["kind"] != "welcome":
            raise ShareError(f"it refuses: {first.get('why', first['kind'])}")
        connection.settimeout(None)
        try:
            patience = float(first["patience"])
        except (KeyError, TypeError, ValueError) as error:
            raise ShareError("its welcome has no maximum wait") from error
        return connection, patience, lines, further
    except BaseException:
        connection.close()
        raise


def connect(address: Path) -> socket.socket:
    """Connect to a broker of this user.

    Raises:
        TimeoutError: if a broker listens at the address, but accepts no connection in time.
        OSError: if no broker listens at the address.
        ShareError: if the broker belongs to another user, or others may use its folder.
    """
    if not address.exists():
        raise FileNotFoundError(f"there is no broker at {address}")
    refuse_others(address.parent)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _limit_sends(connection)  # also the timeout of `connect` if the backlog is full
        connection.connect(os.fspath(address))
        connection.settimeout(GREETING)
        if peer(connection)[1] != os.geteuid():
            raise ShareError("the broker at this address belongs to another user")
    except BlockingIOError as error:
        connection.close()
        raise TimeoutError(
            f"it exists, but has accepted no connection for {GREETING:g} s"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _limit_sends(connection: socket.socket) -> None:
    timeout = struct.pack("ll", int(GREETING), 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def status(address: Path) -> dict[str, Any]:
    """Return a broker's cards and their members; raise the errors of `connect` or `ShareError`."""
    with connect(address) as connection:
        connection.sendall(encode("status", {}))
        answer = _answer(connection, Lines(), f"the broker at {address} sends no answer")[0]
    if answer["kind"] != "status":
        raise ShareError(f"the broker at {address} refuses: {answer.get('why', '')}")
    return answer


def _answer(connection: socket.socket, lines: Lines, closed: str) -> list[Message]:
    """Return one or more messages; raise `ShareError(closed)` if the connection has ended."""
    messages: list[Message] = []
    while not messages:
        data = connection.recv(1 << 16)
        if not data:
            raise ShareError(closed)
        messages = lines.feed(data)
    return messages
