"""Output on stderr, which may be a terminal or may be missing."""

import os
import sys
from contextlib import suppress


def is_plain() -> bool:
    """Return whether to print no escape sequences: `NO_COLOR` is set, or `TERM` supports none."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def is_terminal() -> bool:
    """Return whether stderr is a terminal, on which lines can be rewritten."""
    return sys.stderr is not None and sys.stderr.isatty()


def print_message(text: str) -> None:
    """Print a line on stderr; do nothing if stderr is missing or broken."""
    if sys.stderr is not None:  # print() would use stdout instead.
        with suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)
