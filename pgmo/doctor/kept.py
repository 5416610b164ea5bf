"""Removes what pgmo keeps in the user's cache folder, by kind."""

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pgmo.errors import FileError
from pgmo.files.cache_folder import DistrustError, cache_directory, open_folder

KINDS = ("adapters", "steps")
"""Folders whose files can go at any time: compiled adapters and the stub runtime are compiled again
when needed. Earlier versions wrote steps of `pgmo.recompute`, which nothing reads any more."""

_OURS = {
    "adapters": re.compile(r".+-[0-9a-f]{16}\.(?:so|lock|tmp)|\..+\.[0-9a-f]{12}\.partial"),
    "steps": re.compile(r"[0-9a-f]{40}\.step|\..+\.[0-9a-f]{12}\.partial"),
}
"""Names of files in them. `PGMO_CACHE_DIR` may be any folder, and projects have folders of these
names, too: adapters of LoRA, say."""


@dataclass(frozen=True)
class Kept:
    """One of the folders.

    Args:
        kind: its name, of `KINDS`.
        files: how many.
        size: their bytes.

    Example:
        >>> Kept("steps", 2, 4096).files
        2
    """

    kind: str
    files: int
    size: int


def clear(kinds: Sequence[str] = KINDS) -> tuple[Kept, ...]:
    """Removes the files of these kinds. Processes that have loaded them go on.

    Nothing else is touched, neither in the cache folder nor in those of the kinds.

    Returns:
        What has gone.

    Raises:
        FileError: a folder cannot be changed, or is not the user's own.
    """
    gone = tuple(_clear(kind) for kind in kinds)
    with suppress(OSError):  # something is left in it, or it was never there
        cache_directory().rmdir()
    return gone


def _clear(kind: str) -> Kept:
    root = cache_directory()
    try:
        folder = open_folder(root, kind, make=False)
    except FileNotFoundError:
        return Kept(kind, 0, 0)
    except (DistrustError, OSError) as error:
        raise FileError(
            f"{root / kind} is left alone: {error}; look at it, and remove it by hand"
        ) from error
    try:
        files = size = 0
        for name in os.listdir(folder):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) or not _OURS[kind].fullmatch(name):
                continue
            os.unlink(name, dir_fd=folder)
            files, size = files + 1, size + found.st_size
    except OSError as error:
        raise FileError(
            f"{root / kind} cannot be changed ({error.strerror or error}); check who owns it"
        ) from error
    finally:
        os.close(folder)
    with suppress(OSError):
        (root / kind).rmdir()
    return Kept(kind, files, size)
