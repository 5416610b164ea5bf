"""The folder in which compiled adapters are kept."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.compile import cache_directory

_ADAPTER = 1 << 20
"""Bytes to try to write: adapters take less."""


@dataclass(frozen=True)
class Cache:
    """The folder, and whether it may be written.

    Args:
        folder: where it is or would be made.
        error: why nothing can be written there; "" when something can.
        free: bytes left on its disk; -1 when that is not known.
    """

    folder: Path
    error: str
    free: int


def look_at_cache() -> Cache:
    """Tries to write to the folder, or to the nearest one above it that exists.

    The folder is not made: only a session that compiles something leaves traces.

    Example:
        >>> look_at_cache().error
        ''
    """
    folder = cache_directory()
    there = folder / "adapters"
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".pgmo-doctor-") as file:
            file.write(bytes(_ADAPTER))
        return Cache(folder, "", shutil.disk_usage(there).free)
    except OSError as error:
        return Cache(folder, f"{error.strerror or error} ({there})", -1)
