"""Removal of files from the user's cache folder, by kind."""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pgmo.errors import FileError
from pgmo.files.cache_folder import DistrustError, cache_directory, open_folder

KINDS = ("adapters", "contexts")
"""Folders whose files may be removed at any time: compiled adapters and measured contexts."""

_OURS = {
    "adapters": re.compile(r".+-[0-9a-f]{16}\.(?:so|lock|tmp)|\..+\.[0-9a-f]{12}\.partial"),
    "contexts": re.compile(r"contexts\.json|\..+\.[0-9a-f]{12}\.partial"),
}
"""Patterns of pgmo's own file names in the folders of `KINDS`. `PGMO_CACHE_DIR` may be a folder
with other `adapters`, for example of LoRA."""


_UNUSABLE = ("broken", "damaged", "distrusted")
"""States of an adapter file that pgmo does not load."""


@dataclass(frozen=True)
class RemovedFiles:
    """Number of removed files of one kind, and their size in bytes."""

    kind: str
    files: int
    size: int


def clear(kinds: Sequence[str] = KINDS) -> tuple[RemovedFiles, ...]:
    """Remove pgmo's own files of these kinds. Raise FileError if a folder cannot be changed."""
    gone = tuple(_clear(kind) for kind in kinds)
    with suppress(OSError):  # the folder is not empty, or does not exist
        cache_directory().rmdir()
    return gone


def remove_unusable_adapters(frameworks: Mapping[str, Any]) -> tuple[str, ...]:
    """Remove unusable adapters in the cache folder. Return a phrase for each removed adapter."""
    done = []
    root = os.path.realpath(cache_directory())
    for key in ("cpu_adapter", "cuda_adapter"):
        found = frameworks.get(key, {})
        path = found.get("path", "")
        inside = os.path.realpath(path).startswith(f"{root}{os.sep}")
        if found.get("state") in _UNUSABLE and inside:
            with suppress(OSError):  # the next examination reports the problem
                os.unlink(path)
                done.append(f"removed {path}, which was {found['state']}")
    return tuple(done)


def _clear(kind: str) -> RemovedFiles:
    root = cache_directory()
    try:
        folder = open_folder(root, kind, make=False)
    except FileNotFoundError:
        return RemovedFiles(kind, 0, 0)
    except (DistrustError, OSError) as error:
        raise FileError(
            f"{root / kind} was not removed: {error}; check it, and remove it by hand"
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
    return RemovedFiles(kind, files, size)
