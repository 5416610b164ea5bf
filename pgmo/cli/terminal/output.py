"""What the sub-commands share: consoles, JSON, files that are not overwritten unasked."""

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pgmo.errors import FileError
from pgmo.terminal import plain, say

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120


def console(*, stderr: bool = False) -> "Console":
    """A console on stdout or stderr; colours follow the terminal, NO_COLOR and `--no-color`.

    Without colours there is no bold type either: not one escape sequence is written.

    Text that goes into a file or a pipe gets a fixed width, so that tables are not cut there.
    """
    from rich.console import Console

    system: Literal["auto"] | None = None if plain() else "auto"
    made = Console(stderr=stderr, highlight=False, soft_wrap=False, color_system=system)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def print_text(out: "Console", text: str) -> None:
    """Prints text as it is; a terminal wraps it between words, a file or pipe gets whole lines."""
    out.print(text, markup=False, soft_wrap=not out.is_terminal)


def print_json(value: object) -> None:
    """Prints a value as indented JSON and nothing else."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_failure(command: str, kind: str, message: str, code: int) -> None:
    """Prints on stdout, as JSON, why there is no result; the message is on stderr as always.

    Args:
        command: of which there is no result; "" where none was recognized.
        kind: the error's class.
        message: what happened, and what to do.
        code: the exit code.
    """
    fields = {"command": command or None, "kind": kind, "message": message, "exit_code": code}
    print_json({"error": fields})


def refuse_to_overwrite(paths: Iterable[str | Path], *, force: bool) -> None:
    """Checks that no path exists, unless `force` is set.

    Raises:
        FileError: naming the first one that does.
    """
    if force:
        return
    # Unlike Path.exists, this does not fail on a name that is too long: writing it says so.
    existing = [str(path) for path in paths if os.path.exists(path)]
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise FileError(
            f"{existing[0]} exists already{more}; pass --force to overwrite, or name another place"
        )


def print_wrote(paths: Iterable[str | Path], next_command: str | None = None) -> None:
    """Says on stderr which files were written and what to do with them.

    On stderr, so that stdout holds nothing but the result.
    """
    for path in paths:
        say(f"Wrote {path}")
    if next_command:
        say(f"Next: {next_command}")


def as_command(command: str, *words: str | Path) -> str:
    """A command that can be pasted into a shell.

    Example:
        >>> as_command("pgmo plan", Path("my runs/gpt.pgmoprof"))
        "pgmo plan 'my runs/gpt.pgmoprof'"
    """
    return f"{command} {shlex.join(map(str, words))}"
