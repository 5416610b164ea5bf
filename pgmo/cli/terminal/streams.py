"""The standard streams of a command: full, closed, or with nobody at the other end.

What a command prints may fail at any line of it, and once more when the interpreter ends. Here all
of it becomes one error that says so.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn


class StdoutError(Exception):
    """A result could not be written to stdout. It is the command line's own: `main` catches it.

    Args:
        error: why; None where stdout was closed from the beginning.
    """

    def __init__(self, error: OSError | None = None) -> None:
        reason = "it is closed" if error is None else error.strerror or error
        super().__init__(f"the result cannot be written to stdout: {reason}")
        self.reader_left = isinstance(error, BrokenPipeError)


@contextmanager
def checked_stdout() -> Iterator[None]:
    """In the block, writing to stdout fails with a `StdoutError`; all is written when it ends."""
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
    """Opens the standard streams that are closed, so that no file gets their numbers.

    Else the next file to be opened would be where others print to, and messages for a closed stderr
    would go to stdout, where the result is.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


class _Checked:
    """A stream whose errors are told from those of files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            try:
                return int(self._stream.write(text))
            except UnicodeEncodeError:  # a file's name, or the encoding of a plain terminal
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
    """Stands for a stdout that is not there: fails as soon as there is something to write."""

    encoding = "utf-8"

    def write(self, text: str) -> NoReturn:
        raise StdoutError

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _discard(stream: Any) -> None:
    """Puts what is still in the buffer nowhere: the interpreter would try it again at the end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
