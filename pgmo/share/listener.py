"""Listening socket of the broker, and the lock that excludes a second broker."""

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from pgmo.errors import ShareError
from pgmo.share.protocol import encode


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


def listen(address: Path) -> socket.socket:
    """Return a socket that listens at the address for this user, or raise `ShareError`."""
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
