"""Compare two profiles or plans, or one profile with PyTorch's allocator.

Two files are compared by max load, arena, blocks, holders of the peak, and new or missing origins.
For one profile, shows the bytes that PyTorch's allocator would reserve by default and with
expandable segments, the arena of a plan, and the max load.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.source import read_profile_or_plan
from pgmo.cli.targets import check_number
from pgmo.cli.terminal.holders import print_table
from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
from pgmo.errors import FileError
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile
    from pgmo.report.findings.comparison import Change, Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo compare`."""
    parser.add_argument("file", metavar="FILE", help="a profile, plan, snapshot, log or table")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second file to compare with")
    parser.add_argument(
        "--top", type=int, default=5, metavar="N", help="rows in each list (default: 5)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of tables"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo compare`."""
    from pgmo.report.findings.comparison import compare
    from pgmo.report.summary import plain

    check_number("--top", arguments.top, 1)
    first = read_profile_or_plan(Path(arguments.file))
    if arguments.other is None:
        return _with_pytorch(arguments, first)
    comparison = compare(first, read_profile_or_plan(Path(arguments.other)))
    files = [arguments.file, arguments.other]
    if arguments.json:
        print_json({"files": files, **plain(comparison)})
    else:
        _print(console(), files, comparison, arguments.top)
    return 0


def _with_pytorch(arguments: argparse.Namespace, profile: "Profile | Plan") -> int:
    from pgmo.packing.plan import Plan
    from pgmo.packing.planner import plan
    from pgmo.report.summary import explain, plain
    from pgmo.report.words import reserved_lines

    if isinstance(profile, Plan):
        raise FileError(
            f"{arguments.file} is a plan, which cannot be compared with PyTorch's allocator; "
            "give its profile, or a second file"
        )
    explanation = explain(profile, plan(profile, effort="fast"))
    if arguments.json:
        parts = ("moment", "reserved", "fragmentation")
        fields = {name: plain(getattr(explanation, name)) for name in parts}
        fields |= {"plan": None, "max_load": None}
        if explanation.plan is not None:
            figures = ("arena", "max_load", "gap", "optimal", "solver")
            fields["plan"] = {name: getattr(explanation.plan, name) for name in figures}
            fields["max_load"] = explanation.plan.max_load
        print_json({"file": arguments.file, **fields})
        return 0
    if explanation.moment is not None:
        print("\n".join(explanation.moment.lines()))
        print_wrote([], as_command("pgmo stats", arguments.file, "--by", "file"))
        return 0
    print("\n".join(reserved_lines(explanation)))
    print_wrote([], as_command("pgmo plan", arguments.file))
    return 0


def _print(out: "Console", files: list[str], comparison: "Comparison", top: int) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("", *(escape(name) for name in files), "change")
    for column in table.columns[1:]:
        column.justify = "right"
    for name in ("blocks", "ticks", *_SIZES):
        shown: Callable[[int], str] = format_bytes if name in _SIZES else str
        sides = getattr(comparison.before, name), getattr(comparison.after, name)
        if sides == (None, None):
            continue
        cells = ["" if side is None else shown(side) for side in sides]
        table.add_row(name.replace("_", " "), *cells, _change(*sides, shown))
    for part, before, after in _unused_parts(comparison):
        sizes = format_bytes(before), format_bytes(after)
        table.add_row(f"unused {part}", *sizes, _change(before, after, format_bytes))
    for name, moment in zip(files, comparison.moments, strict=True):
        if moment is not None:
            print_text(out, "\n".join([f"{name}: {moment.nothing_recorded}.", moment.how]))
    out.print(table)
    out.print(_verdict(comparison), markup=False)
    when = "at the peak" if comparison.moments == (None, None) else "alive"
    for by, changes in comparison.peaks.items():
        _print_changes(out, f"{when}, by {by}", changes, top)
    _print_changes(out, "new origins", comparison.new, top)
    _print_changes(out, "origins that are gone", comparison.gone, top)
    for one in comparison.resized[:top]:
        print_text(
            out,
            f"{one.origin}: {one.before_blocks} blocks of {format_bytes(one.before_size)} in all, "
            f"now {one.after_blocks} of {format_bytes(one.after_size)}",
        )


def _unused_parts(comparison: "Comparison") -> Iterator[tuple[str, int, int]]:
    """Yield each part of unused memory that has at least 1 MiB on a side, with both sizes."""
    from pgmo.report.findings.unused_memory import LEAST_SHOWN, WORDS

    before, after = comparison.unused
    if before is None or after is None:
        return
    for name, text in WORDS.items():
        sizes = getattr(before, name), getattr(after, name)
        if max(sizes) >= LEAST_SHOWN:
            yield text, *sizes


_SIZES = ("requested", "max_load", "arena", "persistent")


def _change(before: int | None, after: int | None, shown: Callable[[int], str]) -> str:
    if before is None or after is None:
        return ""
    sign = "+" if after > before else ""
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{sign}{shown(after - before)}{share}" if after != before else "same"


def _verdict(comparison: "Comparison") -> str:
    """Return a sentence on whether both sides have the same requests."""
    if comparison.moments != (None, None):
        return (
            "The requests cannot be compared: without a history, a file has only the "
            "allocated blocks."
        )
    kinds = {comparison.before.kind, comparison.after.kind}
    if kinds == {"profile", "plan"}:
        plan, profile = comparison.before, comparison.after
        if profile.kind == "plan":
            plan, profile = profile, plan
        gap = (plan.arena or 0) / profile.max_load - 1 if profile.max_load else 0.0
        if comparison.same:
            return f"The plan is for these requests; its arena is {gap:.2%} above the max load."
        return "The plan is for other requests: sizes, streams or order differ."
    return (
        "Both make the same requests: sizes, streams and order."
        if comparison.same
        else "They make different requests."
    )


def _print_changes(out: "Console", heading: str, changes: "tuple[Change, ...]", top: int) -> None:
    rows = []
    for one in changes[:top]:
        change = _change(one.before, one.after, format_bytes)
        rows.append((format_bytes(one.before), format_bytes(one.after), change, one.name))
    print_table(out, ("before", "after", "change", heading), rows)
    if len(changes) > top:
        out.print(f"and {len(changes) - top} more", markup=False)
