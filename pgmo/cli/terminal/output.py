"""Common output functions: consoles, JSON, checks against overwriting."""

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pgmo.errors import FileError
from pgmo.terminal import is_plain, say

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120


def console(*, stderr: bool = False) -> "Console":
    """Return a console on stdout or stderr; colours follow the terminal, NO_COLOR and `--no-color`.

    Without colours, it writes no escape sequences. Output to files and pipes has a fixed width, so
    that tables are not cut off.
    """
    from rich.console import Console

    system: Literal["auto"] | None = None if is_plain() else "auto"
    made = Console(stderr=stderr, highlight=False, soft_wrap=False, color_system=system)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def print_text(out: "Console", text: str) -> None:
    """Print plain text. Only on a terminal is it wrapped, between words."""
    out.print(text, markup=False, soft_wrap=not out.is_terminal)


def print_json(value: object) -> None:
    """Print a value as indented JSON and nothing else."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_failure(command: str, kind: str, message: str, code: int) -> None:
    """Print the reason for a missing result as JSON on stdout. Callers print it on stderr, too."""
    fields = {"command": command or None, "kind": kind, "message": message, "exit_code": code}
    print_json({"error": fields})


def refuse_to_overwrite(paths: Iterable[str | Path], *, force: bool) -> None:
    """Raise `FileError` if a path exists, unless `force` is set."""
    if force:
        return
    # Unlike Path.exists, this does not raise for a name that is too long. Writing raises the error.
    existing = [str(path) for path in paths if os.path.exists(path)]
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise FileError(
            f"{existing[0]} exists already{more}; pass --force to overwrite, or name another file"
        )


def print_wrote(paths: Iterable[str | Path], next_command: str | None = None) -> None:
    """Report the written files and the next command on stderr, because stdout has the result."""
    for path in paths:
        say(f"Wrote {path}")
    if next_command:
        say(f"Next: {next_command}")


def as_command(command: str, *words: str | Path) -> str:
    """Format a command so that it can be pasted into a shell."""
    return f"{command} {shlex.join(map(str, words))}"
