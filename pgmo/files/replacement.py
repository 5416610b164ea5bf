"""Writes a file in one step: under a name of its own first, which then takes the other's place."""

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from pgmo.errors import FileError
from pgmo.files.leftovers import hold, sweep

PARTIAL = re.compile(r"\..+\.[0-9a-f]{12}\.partial")
"""Names of files that are being written."""


def replace_file(path: Path, data: bytes, *, without: int = 0) -> None:
    """Writes a file; whoever looks finds the old one or the new one, both whole.

    What processes have left in the folder that were killed in here is taken away.

    Args:
        path: the file; of a link, what it points to is replaced.
        data: all that it is to hold.
        without: permissions that it must not have, whatever the umask says.

    Raises:
        FileError: when the folder or the file cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))  # a link stays a link
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
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise FileError(
            f"{path}: cannot be written ({reason}, {len(data)} bytes); "
            "check that the folder exists, may be written and has room"
        ) from error
