"""The broker's log: a JSON object a line, appended before anybody is told of what it says."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgmo.errors import FileError


class Log:
    """A file that only grows; nothing where there is no path.

    What was written is there when the process is killed in the next moment, for each line is one
    call of the system.

    Args:
        path: of the file, which is made where it is not there, for this user alone.

    Raises:
        FileError: when it cannot be written.
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
        """Appends one line, with its number.

        Raises:
            FileError: when the disk is full.
        """
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
            raise FileError("the log cannot be written: the disk is full")

    def close(self) -> None:
        """Nothing more comes."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
