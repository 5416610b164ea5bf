"""Entry point of the `pgmo` command.

`pgmo --help` explains the exit codes. 130 and 141 are the shell's codes for SIGINT and SIGPIPE.
"""

import argparse
from collections.abc import Sequence

from pgmo.cli.parser import build_parser
from pgmo.cli.terminal.output import print_failure
from pgmo.cli.terminal.streams import StdoutError, checked_stdout, occupy_closed_streams
from pgmo.errors import OptionError, PgmoError
from pgmo.terminal import print_message

_FAILED, _MISUSED, _INTERRUPTED, _UNREAD = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Argparse's exits raise SystemExit."""
    try:
        with checked_stdout():
            parsed = build_parser().parse_args(arguments)
            if parsed.command != "run":
                occupy_closed_streams()
                return _run(parsed)
        return _run(parsed)  # without `checked_stdout`, because a script gets the original streams
    except StdoutError as error:
        if error.reader_left:  # for example after `pgmo stats FILE | head`
            return _UNREAD
        print_message(f"pgmo: {error}")
        return _FAILED
    except KeyboardInterrupt:
        print_message("interrupted")
        return _INTERRUPTED


def _run(parsed: argparse.Namespace) -> int:
    try:
        code: int = parsed.run(parsed)
        return code
    except PgmoError as error:
        code = _MISUSED if isinstance(error, OptionError) else _FAILED
        kind, message = type(error).__name__, str(error)
        print_message(f"pgmo {parsed.command}: {message}")
    except KeyboardInterrupt:
        code, kind, message = _INTERRUPTED, "KeyboardInterrupt", "interrupted"
        print_message(message)
    if getattr(parsed, "json", False) in (True, "-"):  # "-" is stdout for `pgmo run --json`
        print_failure(parsed.command, kind, message, code)
    return code
