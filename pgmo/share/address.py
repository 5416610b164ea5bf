"""Address of the broker: a Unix socket in a folder of the user.

    $XDG_RUNTIME_DIR/pgmo/share        folder 0700, socket 0600
    /tmp/pgmo-1000/share               if $XDG_RUNTIME_DIR does not exist

The permissions exclude other users. The broker also checks the user of each connection.
"""

import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

from pgmo.errors import ShareError

VARIABLE = "PGMO_SHARE"
"""Environment variable with the path of the broker's socket, for clients."""

PRIORITY = "PGMO_SHARE_PRIORITY"
"""Environment variable with the priority of a client, a whole number."""

_LONGEST = 107
"""Maximum length of a Unix socket's path, in bytes (`man 7 unix`). Longer paths are refused."""

_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def default_address() -> Path:
    """Return the path of this user's default socket."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        return Path(runtime) / "pgmo" / "share"
    return Path(tempfile.gettempdir()) / f"pgmo-{os.geteuid()}" / "share"


def prepare_folder(path: Path) -> None:
    """Create the socket's folder for this user alone, or raise `ShareError`."""
    if len(os.fsencode(path)) > _LONGEST:
        raise ShareError(
            f"{path} is too long for a socket: at most {_LONGEST} bytes; name a "
            "shorter path with --socket"
        )
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ShareError(f"{folder} cannot be created: {error.strerror}") from error
    refuse_others(folder)


def refuse_others(folder: Path) -> None:
    """Raise `ShareError` unless a folder belongs to this user and is closed to other users."""
    try:
        held = folder.lstat()
    except OSError as error:
        raise ShareError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid():
        raise ShareError(
            f"{folder} is not a folder of yours: name another path, with --socket for the broker "
            f"and {VARIABLE} for programs"
        )
    if held.st_mode & _FOR_OTHERS:
        raise ShareError(f"{folder} is open to others: chmod 700 {folder}")


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return the IDs of process and user at the other end, from the kernel (`SO_PEERCRED`)."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _group = struct.unpack("3i", found)
    return pid, user
