"""Show the blocks, the max load and the peak of a profile or plan.

Of a profile it tells who holds memory at the peak, of a plan how far its arena is above the max
load. The kind of file is told by its suffix, .pgmoprof or .pgmoplan.
"""

import argparse
from pathlib import Path

from pgmo.cli.option_values import check_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo stats`."""
    parser.add_argument("file", metavar="FILE", help="a .pgmoprof or .pgmoplan file")
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="rows in each list (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print one object, no tables")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo stats`."""
    from pgmo.cli.source import read_profile_or_plan
    from pgmo.cli.terminal.describe import (
        describe_plan,
        describe_profile,
        hint_lines,
        plan_lines,
        profile_lines,
    )
    from pgmo.cli.terminal.holders import print_holders
    from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
    from pgmo.packing.plan import Plan

    check_number("--top", arguments.top, 1)
    path = Path(arguments.file)
    source = read_profile_or_plan(path)
    if isinstance(source, Plan):
        fields = describe_plan(source)
        lines = plan_lines(fields)
    else:
        fields = describe_profile(source, top=arguments.top)
        lines = profile_lines(fields)
    if arguments.json:
        print_json({"file": str(path), **fields})
        return 0
    out = console()
    print_text(out, "\n".join(lines))
    if "peak" in fields:
        print_holders(out, fields["peak"], is_moment=bool(fields["moment"]))
        for line in hint_lines(fields):
            print_text(out, line)
        print_wrote([], as_command("pgmo report", path))
    return 0
