"""Folders of the user's cache. A file is used only if no one but this user and root may write it.

    CACHE/adapters/torch_cpu-2.13.0-0123456789abcdef.so    a file, with its seal at the end

Code that is loaded from a cache has all rights of the process. So the folder and the file must
belong to the user or to root, and no other user may write to them. Folder and file are first
opened; then the open descriptors are checked and used. So no other user can exchange the file
between check and use. Parent folders need not be trusted, and may be /tmp.

The seal contains the SHA-256 digest of the file's name and of all bytes before the seal. It detects
accidents: an incomplete file, or a file under another file's name.
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
    """Error for a link, or for a file or folder that another user may have written."""


class DamageError(Exception):
    """Error for a file whose seal does not match, or that is not a regular file."""


def cache_directory() -> Path:
    """Return pgmo's cache directory: `PGMO_CACHE_DIR`, or a folder in the user's cache."""
    chosen = os.environ.get("PGMO_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("pgmo", appauthor=False)


def open_folder(root: Path, name: str, *, make: bool) -> int:
    """Open a folder in the cache folder and return its descriptor.

    If the user owns the folder, the write permission of other users is removed. Files that other
    users have written to the folder still belong to these users, so they are not loaded.

    Args:
        root: the cache folder.
        name: name of the folder in it.
        make: whether to create both folders if they do not exist.

    Raises:
        DistrustError: when the folder is a link or another user's, or others may write to it.
        OSError: when the folder does not exist, or cannot be made or opened.
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
    """Open and check a file. Return its descriptor, and its content without the seal.

    Raises:
        FileNotFoundError: when the file does not exist.
        DistrustError: when the file is a link or another user's, or others may write to it.
        DamageError: when the seal does not match, or the file is not a regular file.
        OSError: when the file cannot be read.
    """
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise DistrustError(f"{name} is a symbolic link")
    opened = os.open(name, _OPENED | os.O_NONBLOCK, dir_fd=folder)
    try:
        _check_owner(opened, name)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise DamageError(f"{name} is not a regular file")
        with open(opened, "rb", closefd=False) as file:
            data = file.read()
        if data != _sealed(name, data[:-_SEALED]):
            raise DamageError(f"{name} is damaged: its {len(data)} bytes do not match their seal")
    except BaseException:
        os.close(opened)
        raise
    return opened, data[:-_SEALED]


def keep(folder: int, name: str, data: bytes) -> None:
    """Write a sealed file into an open folder atomically, and replace a file of the same name.

    Raises:
        FileError, OSError: when the file cannot be written.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)  # Otherwise the link's target would be replaced.
    replace_file(reach(folder) / name, _sealed(name, data), without=_OTHERS)


def reach(folder: int) -> Path:
    """Return a path that is valid while the folder is open, even after the folder is renamed."""
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
