"""What killed processes leave behind: it is told from what is being worked on, and taken away.

Whoever works on a file or folder that is to go away afterwards holds a lock on it. The system takes
the lock away with the process, however that ends. So what nobody holds, and nobody has touched for
an hour, is a leftover. The hour is for the moment between making and locking, for file systems
whose locks other machines do not see, and for files of versions that took no locks.
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
"""Seconds."""


def hold(descriptor: int) -> None:
    """Holds an open file or folder for as long as the descriptor is open.

    Where the file system has no locks, time alone tells leftovers.
    """
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def leftovers(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    """The files and folders of ours in a folder that ended processes have left.

    Args:
        folder: where to look; one that cannot be read has none.
        names: what the name has to match as a whole.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if names.fullmatch(entry.name) and _is_left(entry.path):
                yield Path(entry.path)


def sweep(folder: Path, names: re.Pattern[str]) -> None:
    """Removes them."""
    for path in list(leftovers(folder, names)):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _is_left(path: str) -> bool:
    try:
        # Not through a link, and without waiting for whoever writes to a pipe.
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
