"""Parser of the command line. Each command adds its options when it is used."""

from __future__ import annotations

import argparse
import importlib
import os

from pgmo.cli.catalog import COMMANDS, STAGES, module_of, summary_of
from pgmo.cli.forgiving import ForgivingParser
from pgmo.removed import COMMAND_OPTIONS
from pgmo.version import __version__

TYPE_CHECKING = False  # as in pgmo/__init__.py: importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_DESCRIPTION = """\
Profile-guided memory allocation for deep learning: record some iterations, assign an offset in
one arena to each block, and serve later iterations from these offsets."""

_EPILOG = """\
`pgmo COMMAND --help` explains a command.
Exit codes: 0 success, 1 an error with a message, 2 a wrong command line, 3 a failed check,
4 a script does not fit, 130 interrupted, 141 stdout was closed by its reader. `pgmo run` and
`pgmo share` return the exit code of their program. With --json (for `pgmo run`: --json -), stdout
also gets an error as an object."""


class CommandParser(ForgivingParser):
    """Parser of one sub-command. It imports the command's module on first use."""

    def __init__(self, *arguments: Any, command: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._command = command

    def fill(self) -> None:
        """Add the command's description and options, once."""
        command, self._command = self._command, ""
        if not command:
            return
        module = importlib.import_module(module_of(command))
        self.description = (module.__doc__ or "").strip()
        # Accept the option after the sub-command, too. A default would overwrite an option that was
        # given before the sub-command.
        self.add_argument(
            "--no-color", action=_NoColor, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        module.add_arguments(self)
        self.set_defaults(run=module.run)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like argparse, which calls this method only for the chosen sub-command."""
        self.fill()
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:  # the main parser would show another usage
            command = self.prog.removeprefix("pgmo").strip()
            for word in unknown:
                option = word.partition("=")[0]
                if (command, option) in COMMAND_OPTIONS:
                    hint = COMMAND_OPTIONS[command, option]
                    self.error(f"`pgmo {command} {option}` was removed: {hint}")
            near = self.nearest_options(unknown)
            meant = f"; did you mean {', '.join(near)}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return parsed, unknown


def build_parser(*, fill: bool = False) -> argparse.ArgumentParser:
    """Build the parser of `pgmo`. With `fill`, add the options of all sub-commands at once."""
    parser = ForgivingParser(
        "pgmo",
        usage="pgmo [-h] [--version] [--no-color] COMMAND ...",
        add_help=False,
        description=f"{_DESCRIPTION}\n\n{_commands()}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def shown(text: str) -> str:
        """Return an option's help; without `fill`, hide the option: the usage line shows it."""
        return text if fill else argparse.SUPPRESS

    parser.add_argument("-h", "--help", action="help", help=shown("show this help and exit"))
    parser.add_argument(
        "--version",
        action="version",
        version=f"pgmo {__version__}",
        help=shown("show the version and exit"),
    )
    parser.add_argument(
        "--no-color", action=_NoColor, help=shown("plain text, also set by NO_COLOR")
    )
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        prog="pgmo",
        parser_class=CommandParser,
        # The description lists the commands by stage, which argparse cannot do.
        help=None if fill else argparse.SUPPRESS,
    )
    for name in COMMANDS:
        own: CommandParser = commands.add_parser(
            name,
            command=name,
            help=summary_of(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if fill:
            own.fill()
    return parser


def parsers_of(parser: argparse.ArgumentParser) -> dict[str, CommandParser]:
    """Return the parsers of the sub-commands by name."""
    (choices,) = (action.choices for action in parser._actions if action.dest == "command")
    assert isinstance(choices, dict)
    return choices


class _NoColor(argparse.Action):
    """Action that sets NO_COLOR immediately, for a later `--help` and for child processes."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **{"default": False, **options})

    def __call__(self, _parser: object, namespace: argparse.Namespace, *_: object) -> None:
        os.environ["NO_COLOR"] = "1"
        setattr(namespace, self.dest, True)


def _commands() -> str:
    parts = []
    for stage, title in STAGES.items():
        names = [name for name, own in COMMANDS.items() if own == stage]
        lines = [f"  {name:<10}  {summary_of(name)}" for name in names]
        parts.append("\n".join([f"{title}:", *lines]))
    return "\n".join(parts)
