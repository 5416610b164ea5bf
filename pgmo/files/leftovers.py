"""Removal of temporary files and folders that killed processes left behind.

A process holds a lock on its temporary file or folder. The system releases the lock when the
process ends, even by a signal. So a file or folder that has no lock and was not modified for an
hour is a leftover. The hour covers the time between creation and locking, file systems whose locks
other machines do not see, and files of old versions of pgmo, which have no locks.
"""

import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_UNTOUCHED = 3600.0
"""Seconds after its last modification from which an unlocked file or folder is a leftover."""


def hold(descriptor: int) -> None:
    """Lock an open file or folder while its descriptor is open, if the file system has locks."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def leftovers(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    """Yield this user's leftovers with matching names; none if the folder is unreadable."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if names.fullmatch(entry.name) and _is_left(entry.path):
                yield Path(entry.path)


def sweep(folder: Path, names: re.Pattern[str]) -> None:
    """Remove the files and folders that `leftovers` yields, if possible."""
    for path in list(leftovers(folder, names)):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _is_left(path: str) -> bool:
    try:
        # Do not follow links, and do not wait for the writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            return False
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _UNTOUCHED:
            return False
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
    finally:
        os.close(descriptor)
