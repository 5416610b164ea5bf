"""Sizes of CUDA contexts that `pgmo doctor` has measured, in a file of the cache."""

import json
import os
from collections.abc import Mapping

from pgmo.files.cache_folder import (
    DamageError,
    DistrustError,
    cache_directory,
    keep,
    open_file,
    open_folder,
)

FOLDER = "contexts"
_FILE = "contexts.json"


def measured_contexts() -> dict[str, int]:
    """Return the bytes of contexts by name of the card; {} if none were measured or readable."""
    try:
        folder = open_folder(cache_directory(), FOLDER, make=False)
    except (OSError, DistrustError):
        return {}
    try:
        opened, data = open_file(folder, _FILE)
        os.close(opened)
        return {str(name): int(size) for name, size in json.loads(data).items()}
    except (OSError, DistrustError, DamageError, ValueError, TypeError, AttributeError):
        return {}
    finally:
        os.close(folder)


def keep_contexts(sizes: Mapping[str, int]) -> None:
    """Add measured sizes, in bytes by name of the card, to the sizes of earlier measurements.

    Raises:
        DistrustError: if another user may write to the folder.
        OSError: if the file cannot be written.
    """
    folder = open_folder(cache_directory(), FOLDER, make=True)
    try:
        keep(folder, _FILE, json.dumps({**measured_contexts(), **sizes}).encode())
    finally:
        os.close(folder)
