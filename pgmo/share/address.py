"""Where the broker listens: a Unix socket in a folder of the user's own.

    $XDG_RUNTIME_DIR/pgmo/share        folder 0700, socket 0600
    /tmp/pgmo-1000/share               where there is no such directory

The permissions keep others out, and so does the broker, which asks the system who has connected.
"""

import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

from pgmo.errors import ShareError

VARIABLE = "PGMO_SHARE"
"""Names the socket, in a client's environment."""

PRIORITY = "PGMO_SHARE_PRIORITY"
"""A whole number, there as well."""

_LONGEST = 107
"""Bytes of a path that a Unix socket may have (`man 7 unix`)."""

_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def default_address() -> Path:
    """The socket that all of a user's programs find on a machine."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        return Path(runtime) / "pgmo" / "share"
    return Path(tempfile.gettempdir()) / f"pgmo-{os.geteuid()}" / "share"


def prepare_folder(path: Path) -> None:
    """Makes the socket's folder, for this user alone.

    Raises:
        ShareError: when it is somebody else's, or open to others, or the path is too long.
    """
    if len(os.fsencode(path)) > _LONGEST:
        raise ShareError(f"{path} is too long for a socket: at most {_LONGEST} bytes")
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ShareError(f"{folder} cannot be made: {error.strerror}") from error
    refuse_others(folder)


def refuse_others(folder: Path) -> None:
    """Checks that a folder is this user's, and nobody else's.

    Raises:
        ShareError: when it is not.
    """
    try:
        held = folder.lstat()
    except OSError as error:
        raise ShareError(f"there is no folder {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid():
        raise ShareError(f"{folder} is not a folder of yours: name another path with --socket")
    if held.st_mode & _FOR_OTHERS:
        raise ShareError(f"{folder} is open to others: chmod 700 {folder}")


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process at the other end, and its user, as the system says it (`SO_PEERCRED`)."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _group = struct.unpack("3i", found)
    return pid, user
