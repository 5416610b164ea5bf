"""Listening socket of the broker, and the lock that excludes a second broker."""

import contextlib
import errno
import fcntl
import os
import socket
from pathlib import Path

from pgmo.errors import ShareError
from pgmo.share.protocol import encode

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener:
    """Socket that accepts connections, or refuses them with a message if no descriptor is left.

    A waiting connection keeps the socket readable, so a broker that ignored the connection would
    loop. The listener closes a descriptor that it holds in reserve, and refuses the connection.
    """

    def __init__(self, address: Path) -> None:
        self.socket = _listen(address)
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self) -> socket.socket | None:
        """Accept one connection. Return None if the connection is gone, or was refused.

        Raises `OSError` if the whole system has no descriptor left: wait before the next try.
        """
        try:
            return self._accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                return None
        self._release_reserve()
        try:
            connected = self._accept()
            refuse(connected, "the broker has no file descriptor left for another connection")
        finally:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return None

    def close(self) -> None:
        """Close the socket and the descriptor in reserve."""
        self.socket.close()
        self._release_reserve()

    def _accept(self) -> socket.socket:
        connected, _ = self.socket.accept()
        connected.setblocking(False)
        return connected

    def _release_reserve(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1


def refuse(connected: socket.socket, why: str) -> None:
    """Send a client the reason for its refusal, and close its connection."""
    with contextlib.suppress(OSError):
        connected.send(encode("refused", {"why": why}))
    connected.close()


def take_lock(address: Path) -> int:
    """Return a descriptor that locks the address until it is closed, or raise `ShareError`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(address.with_name(f"{address.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ShareError(f"another broker listens at {address}") from error
    return descriptor


def _listen(address: Path) -> socket.socket:
    address.unlink(missing_ok=True)  # left by a broker that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(address))
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        raise ShareError(f"{address}: {error.strerror}") from error
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener
