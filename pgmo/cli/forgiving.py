"""Argument parser that suggests similar options, and reports errors as JSON if requested."""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise

from pgmo.removed import COMMANDS, MAIN_OPTIONS

TYPE_CHECKING = False  # as in pgmo/__init__.py: typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, NoReturn


_TEMPLATES = ("--vary", "--accumulate")
"""Options of pgmo whose value is an option of the script."""


class ForgivingParser(argparse.ArgumentParser):
    """Argument parser whose error messages suggest the most similar existing name."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._asked: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, after `with_templates` has joined options and their values."""
        self._asked = with_templates(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._asked, namespace)

    def error(self, message: str) -> NoReturn:
        """Print usage and message on stderr, with `--json` also JSON on stdout, and exit with 2."""
        gone = next((one for one in self._asked[:1] if one in MAIN_OPTIONS), "")
        if gone:
            message = f"`pgmo {gone}` was removed: {MAIN_OPTIONS[gone]}"
        # After a program's name, options may be the program's.
        passes_on = any(action.nargs == argparse.REMAINDER for action in self._actions)
        if "did you mean" not in message and not passes_on:
            nearest = self.nearest_options(_own(self._asked))
            if nearest:
                message += f"; did you mean {', '.join(nearest)}?"
        if asks_for_json(self._asked, self.prog):
            from pgmo.cli.terminal.output import print_failure

            command = self.prog.removeprefix("pgmo").strip()
            print_failure(command, "OptionError", message, 2)
        super().error(message)

    def nearest_options(self, words: Iterable[str]) -> list[str]:
        """Return suggestions for the unknown options among the words."""
        found = []
        for word in words:
            name = word.partition("=")[0]
            known = self._option_string_actions
            if name.startswith("--") and not any(one.startswith(name) for one in known):
                near = nearest(name, known)
                found += [f"{near!r} for {name!r}"] if near else []
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if action.dest == "command" and value in COMMANDS:
                error.message = f"`pgmo {value}` was removed: {COMMANDS[value]}"
                raise
            near = nearest(str(value), map(str, action.choices or ()))
            if near:
                wrong = f"invalid choice: {value!r}"
                error.message = error.message.replace(wrong, f"{wrong}; did you mean {near!r}?", 1)
            raise


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably intended; None if no name is similar."""
    from difflib import get_close_matches

    names = list(names)
    begun = [name for name in names if word and name.startswith(word)]
    return next(iter(begun or get_close_matches(word, names, n=1)), None)


def with_templates(words: Sequence[str]) -> list[str]:
    """Join `_TEMPLATES` with values such as "--batch {}", which argparse takes for options."""
    found: list[str] = []
    for word in words:
        before = found[-1] if found else ""
        if before in _TEMPLATES and word.startswith("-") and "{}" in word:
            found[-1] = f"{before}={word}"
        else:
            found.append(word)
    return found


def asks_for_json(words: Sequence[str], command: str) -> bool:
    """Return whether an unparsed command line probably asks for JSON on stdout.

    Args:
        words: the arguments.
        command: name of the command, such as "pgmo run", or "pgmo" if `words` include the command.
            For "pgmo run", `--json` names a file, and "-" is stdout.
    """
    own = _own(words)
    if command.endswith(" run") or "run" in own:
        return "--json=-" in own or ("--json", "-") in pairwise(own)
    return "--json" in own


def _own(words: Sequence[str]) -> list[str]:
    """Return the words before `--`."""
    words = list(words)
    return words[: words.index("--")] if "--" in words else words
