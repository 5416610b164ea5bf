"""Cache folder of compiled adapters."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.build.adapter_cache import ADAPTERS, LEFT
from pgmo.files.cache_folder import DistrustError, cache_directory, open_folder, reach
from pgmo.files.leftovers import leftovers

_ADAPTER = 1 << 20
"""Bytes of a test write. An adapter has fewer bytes."""


@dataclass(frozen=True)
class Cache:
    """State of the cache folder: whether pgmo can write to it, and load libraries from it.

    Args:
        folder: path of the folder, which need not exist yet.
        error: reason why a test write failed; "" if it succeeded.
        free: free bytes on the folder's disk; -1 if unknown.
        distrust: reason why no files are loaded from the folder; "" if files are loaded, or the
            folder does not exist.
        adapters: number of libraries in the folder, for any version of PyTorch.
        size: bytes of the libraries in the folder.
        left: number of files that killed processes have left. The next session removes them.
        misplaced: whether the path is not a folder, so that no adapter can be cached.
    """

    folder: Path
    error: str
    free: int
    distrust: str = ""
    adapters: int = 0
    size: int = 0
    left: int = 0
    misplaced: bool = False


def examine_cache() -> Cache:
    """Examine the folder without creating it. A test write goes to it, or to an existing parent."""
    root = cache_directory()
    there = root / ADAPTERS
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    error, free = "", -1
    try:
        with tempfile.TemporaryFile(dir=there) as file:  # a file without a name, so none can remain
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
    except OSError:  # the folder does not exist, or cannot be opened
        return Cache(root, error, free)
    try:
        sizes = [
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
            for name in os.listdir(folder)
            if name.endswith(".so")
        ]
        # A `.lock` file belongs to a library that is being compiled, so it is not a leftover.
        left = sum(not path.name.endswith(".lock") for path in leftovers(reach(folder), LEFT))
        return Cache(root, error, free, adapters=len(sizes), size=sum(sizes), left=left)
    except OSError:
        return Cache(root, error, free)
    finally:
        os.close(folder)
