"""Atomic replacement of files, by writing a temporary file and renaming it."""

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from pgmo.errors import FileError
from pgmo.files.leftovers import hold, sweep

PARTIAL = re.compile(r"\..+\.[0-9a-f]{12}\.partial")
"""Pattern of the names of temporary files."""


def replace_file(path: Path, data: bytes, *, without: int = 0) -> None:
    """Write a file atomically: readers find the whole old file or the whole new file.

    Args:
        path: the file. If the path is a symbolic link, the link's target is replaced.
        data: the new content.
        without: permissions that the file must not have, regardless of the umask.

    Raises:
        FileError: when the file cannot be written, or the path exists and is not a regular file.
    """
    try:
        target = Path(os.path.realpath(path))  # Keep a link and replace its target.
        if target.exists() and not target.is_file():
            raise FileError(
                f"{path}: is not a regular file, so it is not replaced; choose another name"
            )
        sweep(target.parent, PARTIAL)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
        try:
            with open(partial, "xb") as file:
                hold(file.fileno())
                if without:
                    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                    os.fchmod(file.fileno(), mode & ~without)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, target)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise
    except (OSError, ValueError) as error:  # A path with a zero byte raises ValueError.
        reason = getattr(error, "strerror", None) or error
        raise FileError(
            f"{path}: cannot be written ({reason}, {len(data)} bytes); "
            "check that the folder exists, is writable and has room"
        ) from error
