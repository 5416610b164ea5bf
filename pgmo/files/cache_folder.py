"""Folders of the user's cache: nothing is used from there but what this user has put there.

    CACHE/adapters/torch_cpu-2.13.0-0123456789abcdef.so    a file, and its seal behind it

What is loaded from a cache can do whatever the process can. So the folder and the file have to
belong to the user, or to root, and nobody else may write to them. They are opened first, and what
is open is looked at and used, so that nothing can be put in its place in between. That needs no
trust in the folders above, which may be /tmp.

The seal is the SHA-256 of the file's name and of all bytes before it. It is for accidents: a file
that was cut off, or that has another's name.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from pgmo.files.replacement import replace_file

_SEAL = b"pgmo-sha256:"
_SEALED = len(_SEAL) + 64
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class DistrustError(Exception):
    """Somebody else may have written this."""


class DamageError(Exception):
    """A file is not whole, or not the one of its name."""


def cache_directory() -> Path:
    """Where pgmo keeps what it need not make again: `PGMO_CACHE_DIR`, or the user's directory."""
    chosen = os.environ.get("PGMO_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("pgmo", appauthor=False)


def open_folder(root: Path, name: str, *, make: bool) -> int:
    """Opens a folder in the cache folder, and returns its descriptor.

    Of a folder of the user's own, the permission of others to write is taken away: whatever they
    have put there is still theirs, and is not used.

    Args:
        root: the cache folder.
        name: of the folder in it.
        make: make both where they are not there.

    Raises:
        DistrustError: the folder belongs to somebody else, or others may write to it.
        OSError: it is not there, or cannot be made or opened.
    """
    path = root / name
    if make:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o755)
    if path.is_symlink():
        raise DistrustError(f"{path} is a symbolic link")
    folder = os.open(path, _OPENED | os.O_DIRECTORY)
    try:
        found = os.fstat(folder)
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            with suppress(OSError):
                os.fchmod(folder, stat.S_IMODE(found.st_mode) & ~_OTHERS)
        _check_owner(folder, str(path))
    except BaseException:
        os.close(folder)
        raise
    return folder


def open_file(folder: int, name: str) -> tuple[int, bytes]:
    """Opens a file of the folder once it is checked.

    Returns:
        Its descriptor, and what it holds, without the seal.

    Raises:
        FileNotFoundError: there is none of this name.
        DistrustError: it belongs to somebody else, or others may write to it.
        DamageError: its seal does not fit.
        OSError: it cannot be read.
    """
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise DistrustError(f"{name} is a symbolic link")
    opened = os.open(name, _OPENED | os.O_NONBLOCK, dir_fd=folder)
    try:
        _check_owner(opened, name)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise DamageError(f"{name} is no file")
        with open(opened, "rb", closefd=False) as file:
            data = file.read()
        if data != _sealed(name, data[:-_SEALED]):
            raise DamageError(f"{name} is not whole: its {len(data)} bytes do not fit their seal")
    except BaseException:
        os.close(opened)
        raise
    return opened, data[:-_SEALED]


def keep(folder: int, name: str, data: bytes) -> None:
    """Puts a file into the folder in one step, sealed, in the place of what had this name.

    Raises:
        FileError, OSError: the folder cannot be written, or is full.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)  # or what it points to would be replaced
    replace_file(reach(folder) / name, _sealed(name, data), without=_OTHERS)


def reach(folder: int) -> Path:
    """A path to an open folder, which leads there even if another has taken its name."""
    return Path(f"/proc/self/fd/{folder}")


def _check_owner(descriptor: int, name: str) -> None:
    found = os.fstat(descriptor)
    if found.st_uid not in (os.geteuid(), 0):
        raise DistrustError(f"{name} belongs to user {found.st_uid}, you are {os.geteuid()}")
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise DistrustError(f"{name} can be written by others (mode {mode:o})")


def _sealed(name: str, data: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0" + data).hexdigest()
    return data + _SEAL + digest.encode()
