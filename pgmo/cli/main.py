"""Entry point of the `pgmo` command: arguments in, exit code out.

Exit codes: 0 fine, 1 something went wrong and was explained, 2 the command line is wrong.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from pgmo.errors import PgmoError
from pgmo.version import __version__

COMMANDS = ("demo", "plan", "stats")
_DESCRIPTION = """\
Profile-guided memory allocation for deep learning: watch one iteration, compute where every block
should have been, serve all later iterations from one arena at those offsets."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code; errors become one message on stderr.

    Args:
        arguments: without the program's name; None for those of the process.

    Example:
        >>> main(["stats", "/no/such/file.pgmoprof"])
        1
    """
    parsed = build_parser().parse_args(arguments)
    if parsed.no_color:
        os.environ["NO_COLOR"] = "1"
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except PgmoError as error:
        print(f"pgmo {parsed.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `pgmo stats FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return code


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all sub-commands.

    Example:
        >>> build_parser().parse_args(["demo", "--json"]).json
        True
    """
    parser = argparse.ArgumentParser("pgmo", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"pgmo {__version__}")
    parser.add_argument("--no-color", action="store_true", help="plain text, also set by NO_COLOR")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"pgmo.cli.{name}")
        text = (module.__doc__ or "").strip()
        command = commands.add_parser(
            name,
            help=text.partition("\n")[0].rstrip("."),
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # Also after the sub-command; without a default, so as not to undo the one before it.
        command.add_argument(
            "--no-color", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
