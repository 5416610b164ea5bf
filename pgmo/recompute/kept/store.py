"""The folder of kept steps: CACHE/steps/KEY.step, by the rules of `pgmo/files/cache_folder.py`."""

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgmo.errors import FileError
from pgmo.files.cache_folder import (
    DamageError,
    DistrustError,
    cache_directory,
    keep,
    open_file,
    open_folder,
    reach,
)
from pgmo.user_warnings import warn_user

STEPS = "steps"
_ENDING = ".step"
_MOST = 128
"""Files that are kept; those that were written first go first."""


def read(key: str) -> Any:
    """What was kept under a key; None if nothing was, or if it cannot be trusted."""
    try:
        folder = open_folder(cache_directory(), STEPS, make=False)
    except DistrustError as error:
        warn_user(f"no kept step is used: {error}")
        return None
    except OSError:
        return None
    try:
        opened, data = open_file(folder, key + _ENDING)
        os.close(opened)
        return json.loads(zlib.decompress(data))
    except DistrustError as error:
        warn_user(f"a kept step is not used: {error}")
    except (DamageError, OSError, ValueError, zlib.error):
        pass
    finally:
        os.close(folder)
    return None


def write(key: str, data: Any) -> bool:
    """Keeps something under a key; whether that could be done."""
    text = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 1)
    try:
        folder = open_folder(cache_directory(), STEPS, make=True)
    except (DistrustError, OSError) as error:
        warn_user(f"the captured step is not kept: {error}")
        return False
    try:
        keep(folder, key + _ENDING, text)
        _let_go(folder)
    except (FileError, OSError) as error:
        warn_user(f"the captured step is not kept: {error}")
        return False
    finally:
        os.close(folder)
    return True


def remove(key: str) -> None:
    """Forgets what was kept under a key."""
    with suppress(OSError, DistrustError):
        folder = open_folder(cache_directory(), STEPS, make=False)
        try:
            os.unlink(key + _ENDING, dir_fd=folder)
        finally:
            os.close(folder)


def _let_go(folder: int) -> None:
    ours = [one for one in reach(folder).iterdir() if one.name.endswith(_ENDING)]
    for one in sorted(ours, key=_written)[:-_MOST]:
        with suppress(OSError):
            one.unlink()


def _written(path: Path) -> int:
    """When; 0 of what another process has removed meanwhile."""
    with suppress(OSError):
        return path.lstat().st_mtime_ns
    return 0
