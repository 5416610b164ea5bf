"""Compute where every block of a profile goes, and save the plan.

Reads a .pgmoprof file, runs the packers, keeps the smallest arena, writes a .pgmoplan file next to
the profile (or where -o says).
"""

import argparse
import os
from pathlib import Path

from pgmo.errors import OptionError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo plan`."""
    parser.add_argument("profile", metavar="PROFILE", help="a .pgmoprof file")
    parser.add_argument(
        "-o", "--output", metavar="PLAN", help="the file to write (default: PROFILE's .pgmoplan)"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite what is there")
    parser.add_argument("--json", action="store_true", help="print one object, no text")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo plan`."""
    import pgmo
    from pgmo.cli.describe import describe_plan, plan_lines
    from pgmo.cli.output import print_json, print_wrote, refuse_to_overwrite
    from pgmo.profiler.profile import Profile

    source = Path(arguments.profile)
    profile = Profile.load(source)
    target = Path(arguments.output) if arguments.output else source.with_suffix(".pgmoplan")
    refuse_to_overwrite([target], force=arguments.force)
    if os.path.exists(target) and os.path.samefile(source, target):
        raise OptionError(f"{target}: the plan would replace its own profile; choose another name")
    plan = pgmo.plan(profile)
    plan.save(target)
    fields = describe_plan(plan)
    if arguments.json:
        print_json({"file": str(target), **fields})
    else:
        print("\n".join(plan_lines(fields)))
    print_wrote([target], next_command=f"pgmo stats {target}")
    return 0
