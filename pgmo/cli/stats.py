"""Show what is in a profile or a plan: blocks, max load, who holds memory at the peak, gap.

The kind of file is told by its suffix, .pgmoprof or .pgmoplan.
"""

import argparse
from pathlib import Path

from pgmo.errors import OptionError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo stats`."""
    parser.add_argument("file", metavar="FILE", help="a .pgmoprof or .pgmoplan file")
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="rows in each list (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print one object, no tables")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo stats`."""
    from pgmo.cli.describe import describe_plan, describe_profile, plan_lines, profile_lines
    from pgmo.cli.holders import print_holders
    from pgmo.cli.output import console, print_json
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile

    if arguments.top < 1:
        raise OptionError(f"--top must be 1 at least, not {arguments.top}")
    path = Path(arguments.file)
    if path.suffix == ".pgmoplan":
        fields = describe_plan(Plan.load(path))
        lines = plan_lines(fields)
    elif path.suffix == ".pgmoprof":
        fields = describe_profile(Profile.load(path), top=arguments.top)
        lines = profile_lines(fields)
    else:
        raise OptionError(
            f"{path}: the suffix {path.suffix!r} is neither .pgmoprof nor .pgmoplan; "
            "rename the file to what it is"
        )
    if arguments.json:
        print_json({"file": str(path), **fields})
        return 0
    out = console()
    out.print("\n".join(lines), markup=False)
    if "peak" in fields:
        print_holders(out, fields["peak"])
    return 0
