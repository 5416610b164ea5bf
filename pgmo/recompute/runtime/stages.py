"""Says on a terminal what a capture is at, on one line that goes away when it is done."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pgmo.terminal import plain, watched

_CLEAR = "\r\x1b[2K"
_begun: list[float] = []
"""When each of the captures under way has begun; one thread captures at a time."""


@contextmanager
def stages() -> Iterator[None]:
    """Inside, `stage` says something; at the end the line is clear again."""
    _begun.append(time.monotonic())
    try:
        yield
    finally:
        _begun.pop()
        _write(_CLEAR)


def stage(text: str) -> None:
    """Says what is being done from now on, where somebody may be looking.

    Args:
        text: such as "plans for 1,628 operations".
    """
    if _begun:
        _write(f"{_CLEAR}pgmo.recompute {text} ({time.monotonic() - _begun[-1]:.0f} s so far)")


def _write(text: str) -> None:
    if watched() and not plain():
        with suppress(OSError, ValueError):
            print(text, end="", file=sys.stderr, flush=True)
