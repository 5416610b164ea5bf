"""The folder in which compiled adapters are kept."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.build.adapter_cache import ADAPTERS, LEFT
from pgmo.files.cache_folder import DistrustError, cache_directory, open_folder, reach
from pgmo.files.leftovers import leftovers

_ADAPTER = 1 << 20
"""Bytes to try to write: adapters take less."""


@dataclass(frozen=True)
class Cache:
    """The folder, whether it may be written, and whether what is in it may be loaded.

    Args:
        folder: where it is or would be made.
        error: why nothing can be written there; "" when something can.
        free: bytes left on its disk; -1 when that is not known.
        distrust: why nothing is loaded from it; "" when it is, or is not there yet.
        adapters: libraries in it, of whatever version.
        size: of these in bytes.
        left: files that killed processes have left; the next session removes them.
        misplaced: whether there is something else than a folder, so that no adapter can be had.
    """

    folder: Path
    error: str
    free: int
    distrust: str = ""
    adapters: int = 0
    size: int = 0
    left: int = 0
    misplaced: bool = False


def look_at_cache() -> Cache:
    """Tries to write to the folder, or to the nearest one above it that exists.

    The folder is not made: only a session that compiles something leaves traces.
    """
    root = cache_directory()
    there = root / ADAPTERS
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    error, free = "", -1
    try:
        with tempfile.TemporaryFile(dir=there) as file:  # without a name, so nothing can be left
            file.write(bytes(_ADAPTER))
            file.flush()
        free = shutil.disk_usage(there).free
    except OSError as problem:
        error = f"{problem.strerror or problem} ({there})"
    try:
        folder = open_folder(root, ADAPTERS, make=False)
    except DistrustError as problem:
        return Cache(root, error, free, distrust=str(problem))
    except NotADirectoryError:
        return Cache(root, error, free, misplaced=True)
    except OSError:  # not there, or it cannot be written either
        return Cache(root, error, free)
    try:
        sizes = [
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
            for name in os.listdir(folder)
            if name.endswith(".so")
        ]
        # What is being compiled has a lock, which says nothing of what was left.
        left = sum(not path.name.endswith(".lock") for path in leftovers(reach(folder), LEFT))
        return Cache(root, error, free, adapters=len(sizes), size=sum(sizes), left=left)
    except OSError:
        return Cache(root, error, free)
    finally:
        os.close(folder)
