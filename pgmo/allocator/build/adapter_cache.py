"""The folder of compiled adapters: nothing is loaded from it but what this user has compiled.

    CACHE/adapters/
        torch_cpu-2.13.0-0123456789abcdef.so      the library, and its seal behind it
        torch_cpu-2.13.0-0123456789abcdef.lock    held by the process that compiles it

Who may have written there, and the seal, are the rules of `pgmo/files/cache_folder.py`. The loader
of the system maps a library without looking, and one that was cut off would end the process.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

ADAPTERS = "adapters"
LEFT = re.compile(r".+\.(tmp|lock|partial)")
"""Names of what is of use only while somebody compiles; `.tmp` is of earlier versions."""

_loads = count(1)


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
