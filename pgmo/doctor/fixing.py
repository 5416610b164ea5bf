"""What can be put right without asking."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgmo.files.cache_folder import cache_directory

_UNUSABLE = ("broken", "damaged", "distrusted")


def fix(frameworks: Mapping[str, Any]) -> tuple[str, ...]:
    """Removes adapters that cannot be loaded, so that they are compiled again.

    Args:
        frameworks: what `pgmo.doctor.probe.ask` has found.

    Returns:
        What was done, a sentence each.

    Example:
        >>> fix({"cpu_adapter": {"state": "built", "path": "/cache/cpu.so"}})
        ()
    """
    done = []
    root = os.path.realpath(cache_directory())
    for key in ("cpu_adapter", "cuda_adapter"):
        found = frameworks.get(key, {})
        path = found.get("path", "")
        inside = os.path.realpath(path).startswith(f"{root}{os.sep}")
        if found.get("state") in _UNUSABLE and inside:
            with suppress(OSError):  # the examination that follows tells what is in the way
                Path(path).unlink()
                done.append(f"removed {path}, which was {found['state']}")
    return tuple(done)
