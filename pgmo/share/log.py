"""Log of the broker: one JSON object per line, written before clients get the event."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgmo.errors import FileError


class Log:
    """Append-only file. One system call writes a line, which survives the end of the process.

    Args:
        path: path of the file, or None to write nothing. A new file is readable by this user alone.

    Raises:
        FileError: if the file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = -1
        self._number = 0
        if path is None:
            return
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise FileError(f"{path} cannot be written: {error.strerror}") from error

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line with its number, or raise `FileError`."""
        self._number += 1
        if self._file < 0:
            return
        line = json.dumps({"n": self._number, **record}, separators=(",", ":")) + "\n"
        data = line.encode()
        try:
            written = os.write(self._file, data)
        except OSError as error:
            raise FileError(f"the log cannot be written: {error.strerror}") from error
        if written != len(data):
            raise FileError(f"the log cannot be written: {written} of {len(data)} bytes were")

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
