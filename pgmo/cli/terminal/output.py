"""Common output functions: consoles, JSON, messages about written files."""

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pgmo.terminal import is_plain, print_message

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120


def console(*, stderr: bool = False) -> "Console":
    """Return a console on stdout or stderr; colours follow the terminal, NO_COLOR and `--no-color`.

    A console without colours writes no escape sequences. Files and pipes get lines of a fixed
    width, so that tables are not cut off.
    """
    from rich.console import Console

    system: Literal["auto"] | None = None if is_plain() else "auto"
    made = Console(stderr=stderr, highlight=False, soft_wrap=False, color_system=system)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def print_text(out: "Console", text: str) -> None:
    """Print plain text. A terminal wraps the text between words, a file or pipe does not."""
    out.print(text, markup=False, soft_wrap=not out.is_terminal)


def print_json(value: object) -> None:
    """Print a value as indented JSON and nothing else."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_failure(command: str, kind: str, message: str, code: int) -> None:
    """Print the reason for a missing result as JSON on stdout. Callers print it on stderr, too."""
    fields = {"command": command or None, "kind": kind, "message": message, "exit_code": code}
    print_json({"error": fields})


def print_wrote(paths: Iterable[str | Path], next_command: str | None = None) -> None:
    """Report the written files and the next command on stderr, because stdout is for results."""
    for path in paths:
        print_message(f"Wrote {path}")
    if next_command:
        print_message(f"Next: {next_command}")


def as_command(command: str, *words: str | Path) -> str:
    """Format a command so that it can be pasted into a shell."""
    return f"{command} {shlex.join(map(str, words))}"
