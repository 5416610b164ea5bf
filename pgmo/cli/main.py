"""Entry point of the `pgmo` command: arguments in, exit code out.

Exit codes: 0 fine, 1 something went wrong and was explained, 2 the command line is wrong, 3 a check
failed.
"""

import os
import sys
from collections.abc import Sequence

from pgmo.cli.parser import build_parser
from pgmo.errors import PgmoError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code; errors become one message on stderr.

    Args:
        arguments: without the program's name; None for those of the process.

    Example:
        >>> main(["stats", "/no/such/file.pgmoprof"])
        1
    """
    try:
        code = _run(arguments)
    except BrokenPipeError:  # `pgmo stats FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return code


def _run(arguments: Sequence[str] | None) -> int:
    parsed = build_parser().parse_args(arguments)
    if parsed.no_color:
        os.environ["NO_COLOR"] = "1"
    try:
        code: int = parsed.run(parsed)
        if parsed.command != "run":  # after a script the interpreter does it, as ever
            sys.stdout.flush()
    except PgmoError as error:
        print(f"pgmo {parsed.command}: {error}", file=sys.stderr)
        return 1
    return code
