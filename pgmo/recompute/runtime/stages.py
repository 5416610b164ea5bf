"""Progress of a capture, on one line of the terminal that is erased at the end."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pgmo.terminal import is_plain, is_terminal

_CLEAR = "\r\x1b[2K"
_begun: list[float] = []
"""Start times of the captures in progress; one thread captures at a time."""


@contextmanager
def stages() -> Iterator[None]:
    """Run a block in which `stage` writes a line, and erase the line at the end."""
    _begun.append(time.monotonic())
    try:
        yield
    finally:
        _begun.pop()
        _write(_CLEAR)


def stage(text: str) -> None:
    """Write a stage, such as "plans for 1,628 operations", on the terminal; only in `stages`."""
    if _begun:
        _write(f"{_CLEAR}pgmo.recompute {text} ({time.monotonic() - _begun[-1]:.0f} s so far)")


def _write(text: str) -> None:
    if is_terminal() and not is_plain():
        with suppress(OSError, ValueError):
            print(text, end="", file=sys.stderr, flush=True)
