"""Compute offsets for the blocks of a profile, and save the plan.

FILE is a profile, a recording of another tool, or a CSV file with the header id,lower,upper,size
(half-open lifetimes, bytes). Of the other columns only `alignment` is used. A profile's plan is
written next to it as .pgmoplan, or to the file of -o. The plan of a CSV file is written only with
-o. A .csv gets the same table with a column `offset`. Ctrl-C ends the search with the best plan so
far. Blocks that are never freed, or that several streams use, get no offset.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.cli.source import is_table, read_profile
from pgmo.cli.targets import check_number, check_suffix, check_targets
from pgmo.cli.terminal.output import as_command, print_json, print_wrote
from pgmo.errors import FileError, OptionError
from pgmo.removed import TABLES
from pgmo.terminal import print_message

if TYPE_CHECKING:
    from pgmo.packing.csv_file import BlockTable
    from pgmo.packing.plan import Plan
    from pgmo.packing.problem import Problem
    from pgmo.packing.solving.result import Packing
    from pgmo.profiler.profile import Profile

_CSV = ".csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo plan`."""
    parser.add_argument("file", metavar="FILE", help="a profile, snapshot, log, or CSV of blocks")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PLAN",
        help="output file: .pgmoplan, or .csv for a table (default: a profile's plan goes "
        "next to the profile)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument(
        "--solver",
        default="auto",
        help="auto (default), search, branch-and-bound, cp-sat, or the name of a packer",
    )
    parser.add_argument(
        "--time-limit",
        metavar="S",
        type=float,
        default=5.0,
        help="time limit in seconds (default: 5)",
    )
    parser.add_argument(
        "--effort", default="balanced", help="fast, balanced (default) or best, for --solver auto"
    )
    parser.add_argument(
        "--threads", metavar="N", type=int, help="number of threads (default: one per core)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of random choices")
    parser.add_argument(
        "--alignment",
        metavar="BYTES",
        type=int,
        help="alignment of a profile's plan in bytes (default: 512 for CUDA devices, else 64)",
    )
    parser.add_argument(
        "--budget",
        metavar="SIZE",
        help="device memory for a profile's blocks, such as 12GiB; beyond it, blocks with the "
        "longest lifetimes are spilled to unified memory",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo plan`."""
    from pgmo.cli.terminal.describe import (
        describe_packing,
        describe_plan,
        packing_lines,
        plan_lines,
    )
    from pgmo.cli.terminal.incumbents import IncumbentLine
    from pgmo.packing.planner import plan
    from pgmo.packing.planning_options import PlanningOptions
    from pgmo.packing.solving.result import Packing

    if arguments.alignment is not None:
        check_number("--alignment", arguments.alignment, 1, 2**40)
    PlanningOptions(**_options(arguments))  # raises for an invalid value before files are read
    source = Path(arguments.file)
    table, what = _read(source)
    target = _target(source, table is None, arguments)
    with IncumbentLine() as line:
        made: Plan | Packing = plan(what, observer=line.show, **_options(arguments))
    if target is not None:
        _write(made, table, target)
    if isinstance(made, Packing):
        fields = describe_packing(made)
        lines = packing_lines(fields)
    else:
        fields = describe_plan(made)
        lines = plan_lines(fields)
    if arguments.json:
        trace = [asdict(event) for event in made.trace]
        file = None if target is None else str(target)
        print_json({"file": file, **fields, "interrupted": made.interrupted, "trace": trace})
    else:
        print("\n".join(lines))
    if made.interrupted and not made.optimal:
        print_message("interrupted: this is the best plan found so far")
    if target is None:
        print_wrote([], as_command("pgmo plan", source, "-o", source.with_suffix(".plan.csv")))
    else:
        print_wrote([target], _next(source, target, is_profile=table is None))
    return 0


def _next(source: Path, target: Path, *, is_profile: bool) -> str | None:
    """Return the next command: `pgmo report`, `pgmo stats` for a table's plan, None for a CSV."""
    if target.suffix.lower() == _CSV:
        return None
    if not is_profile:
        return as_command("pgmo stats", target)
    if target == source.with_suffix(".pgmoplan"):  # `pgmo report` finds this plan
        return as_command("pgmo report", source)
    return as_command("pgmo report", source, "--plan", target)


def _read(source: Path) -> "tuple[BlockTable | None, Profile | Problem]":
    """Return the table (None for a profile), and the profile or problem to plan."""
    from pgmo.packing.csv_file import read_csv
    from pgmo.report.findings.moment import find_moment

    if is_table(source):
        table = read_csv(source)
        return table, table.problem
    profile = read_profile(source)
    moment = find_moment(profile)
    if moment is not None:
        raise FileError(f"{source}: there is nothing to plan. {moment.sentences()}")
    return None, profile


def _target(source: Path, is_profile: bool, arguments: argparse.Namespace) -> Path | None:
    if not arguments.output and not is_profile:
        return None
    target = Path(arguments.output or source.with_suffix(".pgmoplan"))
    is_csv = target.suffix.lower() == _CSV
    if is_profile and is_csv:
        raise OptionError(f"{target}: {TABLES}")
    if is_profile:
        check_suffix(target, ".pgmoplan")
    elif not is_csv:
        check_suffix(target, ".pgmoplan", _CSV)
    check_targets([target], force=arguments.force, sources=[source])
    return target


def _options(arguments: argparse.Namespace) -> Any:
    from pgmo.packing.planning_options import PlanningFields

    return {name: getattr(arguments, name) for name in PlanningFields.__annotations__}


def _write(made: "Plan | Packing", table: "BlockTable | None", target: Path) -> None:
    from pgmo.packing.csv_file import write_csv
    from pgmo.packing.solving.result import Packing

    if not isinstance(made, Packing):
        made.save(target)
    elif table is not None and target.suffix.lower() == _CSV:
        write_csv(table, made.offset, target)
    else:
        made.as_plan().save(target)
