"""Standard streams that may be closed, full, or without a reader.

Printing may fail at any line, and again when the interpreter exits. This module turns such failures
into one error with a message.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn


class StdoutError(Exception):
    """Error if a result cannot be written to stdout; `error` is None if stdout is closed."""

    def __init__(self, error: OSError | None = None) -> None:
        reason = "it is closed" if error is None else error.strerror or error
        super().__init__(f"the result cannot be written to stdout: {reason}")
        self.reader_left = isinstance(error, BrokenPipeError)


@contextmanager
def checked_stdout() -> Iterator[None]:
    """Raise `StdoutError` if writing to stdout fails in the block, or flushing it at the end."""
    stream = sys.stdout
    checked = _Checked(stream) if stream is not None else _Closed()
    sys.stdout = checked
    try:
        try:
            yield
        finally:
            checked.flush()
    except StdoutError:
        _discard(stream)
        raise
    finally:
        if sys.stdout is checked:
            sys.stdout = stream


def occupy_closed_streams() -> None:
    """Open the standard streams that are closed, so that no other file gets their descriptors.

    Otherwise a file that is opened later would receive the messages for stderr.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


class _Checked:
    """Wrapper of stdout that raises `StdoutError` if writing fails."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            try:
                return int(self._stream.write(text))
            except UnicodeEncodeError:  # a file name that is not UTF-8, or a terminal in ASCII
                encoding = self._stream.encoding
                plain = text.encode(encoding, "backslashreplace").decode(encoding)
                return int(self._stream.write(plain))
        except OSError as error:
            raise StdoutError(error) from error

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise StdoutError(error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Closed:
    """Stand-in for a closed stdout that fails on the first write."""

    encoding = "utf-8"

    def write(self, text: str) -> NoReturn:
        raise StdoutError

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _discard(stream: Any) -> None:
    """Discard the stream's buffer, because the interpreter would write it again when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
