"""Find blocks that accumulate over iterations, and where they come from.

Give one profile: best one with a trace of several iterations; a profile of a single steady
iteration shows what it never frees. Or several profiles of the same program in the order of time:
then what grows from each to the next. With --check, the exit code is 3 when there are leaks.
"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmo.report.findings.leaks import Leaks

_CHECK_FAILED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo leaks`."""
    parser.add_argument(
        "files", metavar="PROFILE", nargs="+", help=".pgmoprof files, the oldest first"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="of the device, such as 24GiB: says how long it lasts"
    )
    parser.add_argument("--check", action="store_true", help="exit with 3 when there are leaks")
    parser.add_argument("--json", action="store_true", help="print one object, no tables")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo leaks`."""
    from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
    from pgmo.profiler.profile import Profile
    from pgmo.report.findings.leaks import compare_leaks, find_leaks
    from pgmo.report.findings.moment import find_moment
    from pgmo.report.summary import plain
    from pgmo.report.words import leak_lines
    from pgmo.units import parse_bytes

    memory = None if arguments.memory is None else parse_bytes(arguments.memory)
    profiles = [Profile.load(file) for file in arguments.files]
    moment = find_moment(profiles[0]) if len(profiles) == 1 else None
    leaks = find_leaks(profiles[0]) if len(profiles) == 1 else compare_leaks(profiles)
    if arguments.json:
        fields = {"files": arguments.files, **plain(leaks), "growth": leaks.growth}
        if memory is not None:
            fields |= {"memory": memory, "until_full": leaks.until_full(memory)}
        print_json(fields)
    else:
        lines = moment.lines() if moment is not None else []
        print_text(console(), "\n".join(lines + leak_lines(leaks, memory)))
        if leaks.found:
            command = as_command("pgmo stats", arguments.files[-1], "--by", _best(leaks))
            print_wrote([], command)
    return _CHECK_FAILED if arguments.check and leaks.found else 0


def _best(leaks: "Leaks") -> str:
    """The most telling way of grouping that the first leak has a name for."""
    tag = leaks.found[0].tag
    return next((by for by in ("file", "module", "op") if getattr(tag, by, "")), "size")
