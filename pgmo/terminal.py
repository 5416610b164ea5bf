"""What is written to stderr, which may be a terminal, and may not be there."""

import os
import sys
from contextlib import suppress


def plain() -> bool:
    """Whether no escape sequences are wanted: neither colours, nor bold type, nor moving lines.

    So it is with `NO_COLOR` (https://no-color.org), which `pgmo --no-color` sets, and on terminals
    that know none.
    """
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def watched() -> bool:
    """Whether stderr is a terminal, on which somebody may be looking at what moves."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(text: str) -> None:
    """Prints a line on stderr, if there is one that takes it.

    Example:
        >>> say("done")
    """
    if sys.stderr is not None:  # print() would take stdout instead
        with suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)
