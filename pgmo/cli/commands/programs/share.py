"""Let programs share a card: they take turns, one iteration at a time.

Programs that fit on the card together run at once. With a COMMAND, runs the command with PGMO_SHARE
set: all pgmo sessions in its processes take turns. Without a COMMAND, serves as a broker until
Ctrl-C or --linger, for programs that have its address in PGMO_SHARE. `pgmo run --share` starts a
broker if there is none. If the broker ends, programs continue without turns. --status shows which
programs have a turn on each card, and which wait.

    pgmo share -- sh -c "pgmo run a.py & pgmo run b.py & wait"
    pgmo share --log share.log
"""

import argparse
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgmo.cli.exit_codes import shell_code
from pgmo.cli.targets import check_number
from pgmo.cli.terminal.output import print_json
from pgmo.errors import OptionError, ShareError
from pgmo.share.address import PRIORITY, VARIABLE, default_address
from pgmo.share.broker import Broker
from pgmo.share.handshake import status
from pgmo.share.protocol import MOST_PRIORITY
from pgmo.share.schedule import Rules
from pgmo.share.starting import listens
from pgmo.terminal import print_message
from pgmo.units import format_bytes, parse_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo share`."""
    parser.usage = "pgmo share [options] [-- COMMAND ...]"
    parser.add_argument(
        "--deadline",
        metavar="S",
        type=float,
        default=30.0,
        help="seconds after which other programs no longer wait for a turn to end (default: 30)",
    )
    parser.add_argument(
        "--patience",
        metavar="S",
        type=float,
        default=120.0,
        help="seconds after which a program that waits for a turn continues without a turn "
        "(default: 120)",
    )
    parser.add_argument(
        "--lanes",
        metavar="N",
        type=int,
        default=64,
        help="maximum number of turns at once (default: 64)",
    )
    parser.add_argument(
        "--card-bytes",
        metavar="SIZE",
        help="size of each card, instead of the size that programs report",
    )
    parser.add_argument(
        "--priority",
        metavar="N",
        type=int,
        default=0,
        help="priority of the command, from -8 to 8; each step up doubles its share of the "
        "time (default: 0)",
    )
    parser.add_argument(
        "--socket", metavar="PATH", help="socket to listen on, in a folder of yours"
    )
    parser.add_argument("--log", metavar="FILE", help="append a line for each event")
    parser.add_argument(
        "--linger", metavar="S", type=float, help="end after this many seconds without a program"
    )
    parser.add_argument(
        "--status", action="store_true", help="show the cards of the running broker, and end"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print the address")
    parser.add_argument(
        "--json", action="store_true", help="with --status: print one JSON object instead of text"
    )
    parser.add_argument(
        "words", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command to run"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo share`."""
    rules = _rules(arguments)
    address = Path(arguments.socket).absolute() if arguments.socket else default_address()
    if arguments.status:
        if arguments.words or arguments.log or arguments.linger is not None:
            raise OptionError("--status starts nothing: leave out the command, --log and --linger")
        return _show_status(address, as_json=arguments.json)
    log = Path(arguments.log) if arguments.log else None
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    _check_together(arguments, bool(words))
    if words:
        return _run_command(words, address, rules, log, arguments.priority)
    return _serve(address, rules, log, arguments.linger, quiet=arguments.quiet)


def _show_status(address: Path, *, as_json: bool) -> int:
    try:
        cards = status(address)["cards"]
    except OSError as error:
        raise ShareError(f"no broker answers at {address}: {error}") from error
    if as_json:
        print_json({"cards": cards})
    else:
        print(
            "\n".join(line for card in cards for line in _card_lines(card)) or "no card is shared"
        )
    return 0


def _card_lines(card: dict[str, Any]) -> Iterator[str]:
    state = "crowded: programs take turns" if card["crowded"] else "all programs fit at once"
    yield f"card {card['card']!a}, {format_bytes(card['total'])}, {state}"
    whole = sum(one["used"] for one in card["members"]) or 1.0
    for one in card["members"]:
        since = "" if one["since"] is None else f" for {one['since']:.1f} s"
        need = "" if one["need"] is None else f", needs {format_bytes(one['need'])} in a turn"
        yield (
            f"  {one['name']!a}  pid {one['pid']}, {one['state']}{since}, "
            f"{one['used'] / whole:.1%} of the time, {one['turns']} turns, "
            f"priority {one['priority']}, has {format_bytes(one['held'])}{need}"
        )


def _check_together(arguments: argparse.Namespace, has_command: bool) -> None:
    if arguments.json:
        raise OptionError("--json is used only with --status; add --status, or leave --json out")
    if has_command and arguments.linger is not None:
        raise OptionError("a broker that runs a command ends with it; leave --linger out")
    if not has_command and arguments.priority:
        raise OptionError("--priority is for a command, and there is none; add one after --")


def _serve(
    address: Path, rules: Rules, log: Path | None, linger: float | None, *, quiet: bool
) -> int:
    with Broker(address, rules, log, linger=linger) as broker:
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda _number, _frame: broker.stop())
        if not quiet:
            print_message(f"serving at {address}; in other shells: export {VARIABLE}={address}")
        broker.run()
    return 0


def _run_command(
    words: list[str], address: Path, rules: Rules, log: Path | None, priority: int
) -> int:
    environment = {**os.environ, VARIABLE: str(address), PRIORITY: str(priority)}
    if listens(address):
        if log is not None or rules != Rules():
            raise OptionError(
                f"a broker with its own log and rules listens at {address} already: leave "
                "--log, --deadline, --patience, --lanes and --card-bytes out, or stop that "
                "broker first"
            )
        with _started(words, environment) as child:
            return shell_code(child.wait())
    with Broker(address, rules, log) as broker:
        child = _started(words, environment)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets SIGINT, too
        signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
        ended = os.pidfd_open(child.pid)
        broker.watch(ended, broker.stop)
        broker.run()
        os.close(ended)
        return shell_code(child.wait())


def _started(words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(words, env=environment)
    except OSError as error:
        raise OptionError(f"{words[0]} cannot be run: {error.strerror}") from error


def _rules(arguments: argparse.Namespace) -> Rules:
    for name in ("deadline", "patience", "linger"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < float("inf"):
            raise OptionError(f"--{name} is {value:g}; give a number of seconds above 0")
    check_number("--lanes", arguments.lanes, 1)
    check_number("--priority", arguments.priority, -MOST_PRIORITY, MOST_PRIORITY)
    total = None if arguments.card_bytes is None else parse_bytes(arguments.card_bytes)
    return Rules(arguments.deadline, arguments.patience, arguments.lanes, total)
