"""Show the blocks, the max load and the peak of a profile or plan.

For a profile, also lists what holds memory at the peak. For a plan, also shows by how much its
arena exceeds the max load. FILE may also be a memory snapshot of PyTorch, a log or a table.

--blocks lists the largest blocks of a profile. --by sums them by module, operator, phase, file,
stream or size class. --at-peak keeps only planned blocks that are alive at the peak; their sizes
add up to the max load.

--leaks lists blocks that accumulate, and their origins. It works best on a recording of several
iterations; for one steady iteration it lists the blocks that are never freed. If iterations are not
recognised, --every N sets their length: N steps if the recording marks steps, else N requests. With
--check, the exit code is 3 if there are leaks.

If FILE is a directory, shows a row for each device of each rank. For each figure, marks the rank
that differs most from the others. The directory has files of `pgmo run --json` under torchrun, or
of pgmo.log_metrics.
"""

import argparse
import os
from dataclasses import asdict, replace
from pathlib import Path

from pgmo.cli.exit_codes import CHECK_FAILED
from pgmo.cli.source import read_profile, read_profile_or_plan
from pgmo.cli.targets import check_number
from pgmo.cli.terminal.block_list import KINDS, show_blocks
from pgmo.cli.terminal.holders import print_holders, print_table
from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
from pgmo.errors import OptionError

_RANK_FIGURES = ("peak_live", "reserved", "stuck", "retries", "from_plan", "growth")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo stats`."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a profile, plan, snapshot, log or table; or a directory with figures of ranks",
    )
    parser.add_argument("--blocks", action="store_true", help="list the blocks of a profile")
    parser.add_argument("--by", choices=KINDS, help="sum blocks instead of listing them")
    parser.add_argument("--at-peak", action="store_true", help="only blocks alive at the peak")
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="rows in each list (default: 10)"
    )
    parser.add_argument("--leaks", action="store_true", help="list the blocks that accumulate")
    parser.add_argument(
        "--every",
        type=int,
        metavar="N",
        help="with --leaks: an iteration is N steps, or N requests if the file has no steps",
    )
    parser.add_argument(
        "--check", action="store_true", help="with --leaks: exit code 3 if there are leaks"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of tables"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo stats`."""
    check_number("--top", arguments.top, 1)
    if arguments.every is not None:
        check_number("--every", arguments.every, 1)
    if os.path.isdir(arguments.file):
        return _ranks(arguments)
    if arguments.leaks:
        return _leaks(arguments)
    if arguments.check or arguments.every is not None:
        name = "--check" if arguments.check else "--every"
        raise OptionError(f"{name} is used only with --leaks; add --leaks, or leave {name} out")
    path = Path(arguments.file)
    if arguments.blocks or arguments.by or arguments.at_peak:
        if path.suffix == ".pgmoplan":
            raise OptionError(
                f"--blocks, --by and --at-peak need a profile, and {path} has the suffix of a plan"
            )
        show_blocks(
            path,
            at_peak=arguments.at_peak,
            by=arguments.by,
            top=arguments.top,
            as_json=arguments.json,
        )
        return 0
    _show_summary(path, arguments)
    return 0


def _ranks(arguments: argparse.Namespace) -> int:
    """Print the figures of the ranks in a directory, and the largest difference of each figure."""
    from pgmo.report.ranks import FIGURES, find_differences, format_figure, read_ranks

    if arguments.leaks or arguments.blocks or arguments.by or arguments.at_peak or arguments.check:
        raise OptionError(
            f"{arguments.file} is a directory, whose ranks are compared; "
            "leave all options but --json out, or give a file"
        )
    folder = Path(arguments.file)
    ranks = read_ranks(folder)
    differences = find_differences(ranks)
    if arguments.json:
        rows = [
            {"rank": one.rank, "device": one.device, "file": one.file}
            | {name: one.figures[name] for name in FIGURES}
            for one in ranks
        ]
        fields = [asdict(one) for one in differences]
        print_json({"directory": str(folder), "ranks": rows, "differences": fields})
        return 0
    out = console()
    differing = {one.rank for one in differences}
    print_table(
        out,
        ("rank", *(name.replace("_", " ") for name in _RANK_FIGURES), "file"),
        [
            (
                f"{one.rank} *" if one.rank in differing else str(one.rank),
                *(format_figure(name, one.figures[name]) for name in _RANK_FIGURES),
                one.file,
            )
            for one in ranks
        ],
    )
    for difference in differences:
        print_text(out, f"* {difference}")
    return 0


def _leaks(arguments: argparse.Namespace) -> int:
    from pgmo.profiler.iterations.from_trace import marked_every
    from pgmo.report.findings.leaks import find_leaks
    from pgmo.report.findings.moment import find_moment
    from pgmo.report.summary import plain
    from pgmo.report.words import leak_lines

    if arguments.blocks or arguments.by or arguments.at_peak:
        raise OptionError(
            "--leaks lists the blocks that accumulate; leave --blocks, --by and --at-peak out"
        )
    path = Path(arguments.file)
    profile = read_profile(path)
    if arguments.every is not None:
        if profile.trace is None or not profile.trace.has_history:
            raise OptionError(
                f"--every needs a recording of several iterations, and {path} has none"
            )
        profile = replace(profile, trace=marked_every(profile.trace, arguments.every))
    leaks = find_leaks(profile)
    if arguments.json:
        print_json({"file": str(path), **plain(leaks), "growth": leaks.growth})
    else:
        moment = find_moment(profile)
        lines = moment.lines() if moment is not None else []
        print_text(console(), "\n".join(lines + leak_lines(leaks)))
        if leaks.found:
            tag = leaks.found[0].tag
            by = next((by for by in ("file", "module", "op") if getattr(tag, by, "")), "size")
            print_wrote([], as_command("pgmo stats", path, "--by", by))
    return CHECK_FAILED if arguments.check and leaks.found else 0


def _show_summary(path: Path, arguments: argparse.Namespace) -> None:
    from pgmo.cli.terminal.describe import (
        describe_plan,
        describe_profile,
        plan_lines,
        profile_lines,
    )
    from pgmo.packing.plan import Plan
    from pgmo.report.summary import explain
    from pgmo.report.words import hint_lines

    out = console()
    source = read_profile_or_plan(path, noted=False)
    if isinstance(source, Plan):
        fields = describe_plan(source)
        if arguments.json:
            print_json({"file": str(path), **fields})
        else:
            print_text(out, "\n".join(plan_lines(fields)))
        return
    explanation = explain(source, top=arguments.top, predict=False)
    fields = describe_profile(source, explanation)
    if arguments.json:
        print_json({"file": str(path), **fields})
        return
    print_text(out, "\n".join(profile_lines(fields, explanation)))
    print_holders(out, fields["peak"], is_moment=source.is_moment)
    for line in hint_lines(explanation.hints):
        print_text(out, line)
    print_wrote([], as_command("pgmo report", path))
