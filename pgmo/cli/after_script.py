"""Script that a command runs, and check of the script's arguments."""

import argparse
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

from pgmo.cli.forgiving import with_templates
from pgmo.errors import OptionError


def add_script(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    """Add `-m`, the script, and the script's arguments."""
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="SCRIPT is a module, as for python -m"
    )
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs=nargs,
        help="path of the script, or name of the module after -m",
    )
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="arguments of the script"
    )


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the arguments with which `python` runs the script."""
    return [*(["-m"] if arguments.is_module else []), arguments.script, *arguments.arguments]


def check_arguments(
    arguments: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Refuse options of pgmo that stand after the script's name.

    Options whose name occurs in the script's file are allowed, and so are all options after a `--`.
    The `--` is removed if it is the script's first argument, or if an option of pgmo follows it.

    Args:
        arguments: parsed arguments: `command`, `script`, `is_module`, and `arguments` of the
            script, which are changed in place.
        add_options: adds to a parser the options that are refused after the script.

    Raises:
        OptionError: if an option is refused. The message shows where to write it.

    Example:
        >>> given = argparse.Namespace(command="fit", script="train.py", is_module=False)
        >>> given.arguments = ["--lr", "1e-3", "--", "--card", "hearts"]
        >>> check_arguments(given, lambda parser: parser.add_argument("--card"))
        >>> given.arguments
        ['--lr', '1e-3', '--card', 'hearts']
    """
    words: list[str] = arguments.arguments
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_options(parser)
    names = {name for action in parser._actions for name in action.option_strings}
    for word in with_templates(words[:end]):
        name = word.partition("=")[0]
        if name in names and not _mentions(arguments, name):
            raise OptionError(
                f"{name} is an option of pgmo {arguments.command} and belongs before the script: "
                f"pgmo {arguments.command} {name} ... {arguments.script} ...; if it is the "
                f"script's own, write -- before the script's arguments"
            )
    behind = words[end + 1 :]
    if end == 0 or any(word.partition("=")[0] in names for word in behind):
        arguments.arguments = words[:end] + behind


def _mentions(arguments: argparse.Namespace, name: str) -> bool:
    """Return whether the script's file contains the option's name, as `what-if` or `what_if`."""
    path = arguments.script or ""
    if arguments.is_module:
        try:
            found = importlib.util.find_spec(path)
        except Exception:  # Parent packages of the module are imported, and may raise any error.
            return False
        path = (found and found.origin) or ""
    word = re.escape(name.lstrip("-")).replace(r"\-", "[-_]")
    try:
        return re.search(rf"\b{word}\b", Path(path).read_text(errors="replace")) is not None
    except OSError:
        return False
