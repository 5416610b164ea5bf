"""The folder of compiled adapters: nothing is loaded from it but what this user has compiled.

    CACHE/adapters/
        torch_cpu-2.13.0-0123456789abcdef.so      the library, and its seal behind it
        torch_cpu-2.13.0-0123456789abcdef.lock    held by the process that compiles it

A library that is loaded can do whatever the process can. So the folder and the file have to belong
to the user, or to root, and nobody else may write to them. They are opened first, and what is open
is looked at and loaded, so that nothing can be put in its place in between. That needs no trust in
the folders above, which may be /tmp.

The seal is the SHA-256 of the file's name and of all bytes before it. It is for accidents: the
loader of the system maps a library without looking, and one that was cut off ends the process.
"""

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from pgmo.leftovers import leftovers, sweep
from pgmo.replacement import replace_file

ADAPTERS = "adapters"
_SEAL = b"pgmo-sha256:"
_SEALED = len(_SEAL) + 64
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFT = re.compile(r".+\.(tmp|lock|partial)")
"""Names of what is of use only while somebody compiles; `.tmp` is of earlier versions."""

_loads = count(1)


class DistrustError(Exception):
    """Somebody else may have written this."""


class DamageError(Exception):
    """A library is not whole, or not the one of its name."""


def open_folder(root: Path, *, make: bool) -> int:
    """Opens the folder of adapters in the cache folder, and returns its descriptor.

    Of a folder of the user's own, the permission of others to write is taken away: whatever they
    have put there is still theirs, and is not loaded.

    Args:
        root: the cache folder.
        make: make both where they are not there.

    Raises:
        DistrustError: the folder belongs to somebody else, or others may write to it.
        OSError: it is not there, or cannot be made or opened.
    """
    path = root / ADAPTERS
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


def open_library(folder: int, name: str) -> int:
    """Opens a library of the folder once it is checked, and returns its descriptor.

    Raises:
        FileNotFoundError: there is none of this name.
        DistrustError: it belongs to somebody else, or others may write to it.
        DamageError: its seal does not fit.
        OSError: it cannot be read.
    """
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise DistrustError(f"{name} is a symbolic link")
    library = os.open(name, _OPENED | os.O_NONBLOCK, dir_fd=folder)
    try:
        _check_owner(library, name)
        if not stat.S_ISREG(os.fstat(library).st_mode):
            raise DamageError(f"{name} is no file")
        with open(library, "rb", closefd=False) as file:
            data = file.read()
        if data != _sealed(name, data[:-_SEALED]):
            raise DamageError(f"{name} is not whole: its {len(data)} bytes do not fit their seal")
    except BaseException:
        os.close(library)
        raise
    return library


def keep(folder: int, name: str, library: bytes) -> None:
    """Puts a library into the folder in one step, sealed, in the place of what had this name.

    Raises:
        FileError, OSError: the folder cannot be written, or is full.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)  # or what it points to would be replaced
    replace_file(_reach(folder) / name, _sealed(name, library), without=_OTHERS)


@contextmanager
def compiling(folder: int, name: str) -> Iterator[None]:
    """In the block, no other process compiles the library; entering waits for one that does.

    Raises:
        OSError: the folder cannot be written, or its file system has no locks.
    """
    lock = _open_lock(folder, f"{Path(name).stem}.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def clean(folder: int) -> None:
    """Removes what killed processes have left in the folder."""
    sweep(_reach(folder), _LEFT)


def left_behind(folder: int) -> int:
    """How many files killed processes have left in the folder."""
    return sum(not path.name.endswith(".lock") for path in leftovers(_reach(folder), _LEFT))


def loadable(library: int, path: Path) -> Path:
    """The path by which exactly what is open is loaded, whatever lies at its own by now.

    A path of its own each time: the loader takes a known path for the library that it has from
    there, and the numbers of descriptors are given out again.

    The path stays good for other processes, too: PyTorch's snapshots name the C++ functions on the
    stack, and fail as a whole when addr2line finds no file where the loader says that one is.

    Args:
        library: the open file; it stays open, as the library stays loaded.
        path: where it lies; loaded from where the system has no /proc.
    """
    # Not by more slashes, which `Path` takes out.
    folder = f"/proc/{os.getpid()}/fd/{'../fd/' * next(_loads)}"
    if not os.path.exists(f"{folder}{library}"):
        return path
    return Path(f"{folder}{os.dup(library)}")


def _open_lock(folder: int, name: str) -> int:
    # Others must not even open it: they could hold it for ever.
    how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(name, how, 0o600, dir_fd=folder)
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        os.unlink(name, dir_fd=folder)
        lock = os.open(name, how | os.O_EXCL, 0o600, dir_fd=folder)
    os.fchmod(lock, 0o600)
    return lock


def _check_owner(descriptor: int, name: str) -> None:
    found = os.fstat(descriptor)
    if found.st_uid not in (os.geteuid(), 0):
        raise DistrustError(f"{name} belongs to user {found.st_uid}, you are {os.geteuid()}")
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise DistrustError(f"{name} can be written by others (mode {mode:o})")


def _sealed(name: str, library: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0" + library).hexdigest()
    return library + _SEAL + digest.encode()


def _reach(folder: int) -> Path:
    """A path to an open folder, which leads there even if another has taken its name."""
    return Path(f"/proc/self/fd/{folder}")
