"""Folder of compiled adapters. pgmo loads only files that the current user or root owns.

    CACHE/adapters/
        torch_cpu-2.13.0-0123456789abcdef.so      the library, followed by its seal
        torch_cpu-2.13.0-0123456789abcdef.lock    held by the process that compiles it

`pgmo/files/cache_folder.py` has the rules for permissions and seals. A seal is needed because the
system's loader does not verify a library: a truncated file would crash the process.
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
"""Names of files that only a compilation needs. Earlier versions of pgmo wrote `.tmp` files."""

_loads = count(1)


@contextmanager
def compiling(folder: int, name: str) -> Iterator[None]:
    """Lock a library in an open folder against compilation by other processes."""
    lock = _open_lock(folder, f"{Path(name).stem}.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def loadable(library: int, path: Path) -> Path:
    """Return a path that loads exactly the open file, even if the file at `path` was replaced.

    Each call returns a new path: the loader treats equal paths as the same library, but the system
    reuses descriptor numbers. The path is valid in other processes, too: PyTorch's snapshots run
    addr2line on it to name C++ functions. Without /proc, the result is `path`.

    Args:
        library: descriptor of the open file. A duplicate stays open until the process ends.
        path: path of the file.
    """
    # Repeated "../fd/" makes the path unique. Repeated slashes would not, because `Path` joins
    # them.
    folder = f"/proc/{os.getpid()}/fd/{'../fd/' * next(_loads)}"
    if not os.path.exists(f"{folder}{library}"):
        return path
    return Path(f"{folder}{os.dup(library)}")


def _open_lock(folder: int, name: str) -> int:
    # Other users must not be able to open the lock file, because they could hold it forever.
    how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(name, how, 0o600, dir_fd=folder)
    if os.fstat(lock).st_uid != os.geteuid():
        os.close(lock)
        os.unlink(name, dir_fd=folder)
        lock = os.open(name, how | os.O_EXCL, 0o600, dir_fd=folder)
    os.fchmod(lock, 0o600)
    return lock
