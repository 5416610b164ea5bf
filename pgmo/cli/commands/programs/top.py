"""Watch programs that run under pgmo run on this machine.

Without PID all of yours are shown. On a terminal the view is renewed until the last of them has
ended, or until Ctrl-C; elsewhere, with --once and with --json it is shown once. Each program
writes how it stands into a file of yours once a second at most. Of cards that programs share
(`pgmo share`) it says who has the turn, who waits, and what each has of the card.

    pgmo top
    pgmo top 4711 --once
"""

import argparse
from typing import TYPE_CHECKING, Any

from pgmo.errors import OptionError, PgmoError

if TYPE_CHECKING:
    from pgmo.runner.status import RunStatus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo top`."""
    parser.add_argument("pid", metavar="PID", nargs="?", type=int, help="only this process")
    parser.add_argument("--once", action="store_true", help="show it once, and end")
    parser.add_argument(
        "--interval", metavar="S", type=float, default=1.0, help="seconds between two views"
    )
    parser.add_argument("--json", action="store_true", help="print one object, no text")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo top`."""
    import time

    from pgmo.cli.terminal.output import console, print_json, print_text
    from pgmo.cli.terminal.top_view import view
    from pgmo.terminal import plain

    if not 0 < arguments.interval < float("inf"):
        raise OptionError(f"--interval {arguments.interval:g}: give seconds above 0")
    statuses, cards = _chosen(arguments.pid), _cards()
    if arguments.json:
        from dataclasses import asdict

        print_json({"runs": [asdict(one) for one in statuses], "cards": cards})
        return 0
    out = console()
    if arguments.once or plain() or not out.is_terminal or not statuses:
        print_text(out, view(statuses, time.time(), cards))
        return 0
    from rich.live import Live
    from rich.text import Text

    with Live(Text(view(statuses, time.time(), cards)), console=out, auto_refresh=False) as live:
        while statuses:
            time.sleep(arguments.interval)
            statuses = _still(arguments.pid)
            if statuses:  # what was seen last stays
                live.update(Text(view(statuses, time.time(), _cards())), refresh=True)
    return 0


def _cards() -> "list[dict[str, Any]]":
    """The cards that programs share, as the broker sees them; none where there is no broker."""
    import os
    from contextlib import suppress
    from pathlib import Path

    from pgmo.errors import ShareError
    from pgmo.share.address import VARIABLE, default_address
    from pgmo.share.meeting import status

    with suppress(OSError, ShareError):
        found = status(Path(os.environ.get(VARIABLE) or default_address()))["cards"]
        return list(found)
    return []


def _still(pid: int | None) -> "list[RunStatus]":
    from pgmo.runner.status import read_running

    return [one for one in read_running() if pid in (None, one.pid)]


def _chosen(pid: int | None) -> "list[RunStatus]":
    """Those that are meant.

    Raises:
        PgmoError: when the one that is meant does not run, or has nothing to tell.
    """
    found = _still(pid)
    if pid is not None and not found:
        running = ", ".join(str(one.pid) for one in _still(None))
        raise PgmoError(
            f"process {pid} is no program of yours under `pgmo run` that has completed an "
            f"iteration; {f'these are: {running}' if running else 'none runs here'}"
        )
    return found
