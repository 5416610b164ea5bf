"""List the blocks of a profile, or who holds them.

Without --by, the largest blocks one by one. With --by, their sums by module, operator, phase,
file, stream or size class. --at-peak keeps those that are alive when most memory is; the sums then
add up to the max load exactly.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.cli.option_values import check_number
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile

_KINDS = ("module", "op", "phase", "file", "stream", "size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo blocks`."""
    parser.add_argument("file", metavar="PROFILE", help="a .pgmoprof file")
    parser.add_argument("--at-peak", action="store_true", help="only blocks alive at the peak")
    parser.add_argument("--by", choices=_KINDS, help="sum blocks instead of listing them")
    parser.add_argument(
        "--top", type=int, default=20, metavar="N", help="rows to show (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print one object, no tables")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo blocks`."""
    from pgmo.cli.terminal.output import (
        as_command,
        console,
        print_json,
        print_text,
        print_wrote,
    )
    from pgmo.profiler.profile import Profile
    from pgmo.report.findings.moment import find_moment

    check_number("--top", arguments.top, 1)
    path = Path(arguments.file)
    profile = Profile.load(path)
    moment = find_moment(profile)
    fields = _describe(profile, arguments, is_moment=moment is not None)
    if arguments.json:
        print_json({"file": str(path), **fields})
        return 0
    if moment is not None:
        print_text(console(), "\n".join(moment.lines()))
    _print(console(), fields)
    if not arguments.by:
        print_wrote([], as_command("pgmo blocks", path, "--at-peak", "--by", "module"))
    return 0


def _describe(
    profile: "Profile", arguments: argparse.Namespace, *, is_moment: bool
) -> dict[str, Any]:
    import numpy as np

    from pgmo.report.findings.attribution import alive, hold, peak_tick

    tick = peak_tick(profile)
    copies = alive(profile, tick) if arguments.at_peak else np.ones(len(profile), np.int64)
    fields: dict[str, Any] = {
        "at_peak": arguments.at_peak,
        "by": arguments.by,
        "recorded": not is_moment,
        "tick": tick if arguments.at_peak and not is_moment else None,
        "blocks": int(copies.sum()),
        "size": int((profile.size * copies).sum()),
    }
    if arguments.by:
        held = hold(profile, copies, arguments.by, arguments.top)
        fields["rows"] = [
            {"name": one.name, "size": one.size, "blocks": one.blocks} for one in held
        ]
    else:
        rows = np.flatnonzero(copies)
        largest = rows[np.argsort(-profile.size[rows], kind="stable")][: arguments.top]
        fields["rows"] = [_row(profile, row, int(copies[row])) for row in largest.tolist()]
    return fields


def _row(profile: "Profile", row: int, copies: int) -> dict[str, Any]:
    from dataclasses import asdict

    tag = int(profile.tag[row])
    origin = asdict(profile.tags[tag]) if tag >= 0 else None
    return {
        "row": row,
        "size": int(profile.size[row]),
        "copies": copies,
        "start": int(profile.start[row]),
        "end": None if profile.persistent[row] else int(profile.end[row]),
        "stream": int(profile.stream[row]),
        "varying": bool(profile.varying[row]),
        "shared": bool(profile.shared[row]),
        "origin": origin,
    }


def _print(out: Any, fields: dict[str, Any]) -> None:
    from pgmo.cli.terminal.holders import print_held, print_table
    from pgmo.profiler.tag import Tag
    from pgmo.report.blocks.origins import describe

    where = f"alive at tick {fields['tick']}, the peak" if fields["at_peak"] else "in all"
    if not fields["recorded"]:
        where = "allocated when the file was written"
    out.print(f"{fields['blocks']} blocks, {format_bytes(fields['size'])}, {where}", markup=False)
    if fields["by"]:
        print_held(out, fields["by"], fields["rows"], fields["size"])
        return
    rows = []
    for one in fields["rows"]:
        end = "persistent" if one["end"] is None else f"{one['start']} to {one['end']}"
        end = end if fields["recorded"] else "not known"
        twice = f" x {one['copies']}" if one["copies"] > 1 else ""
        origin = describe(Tag(**one["origin"]) if one["origin"] else None)
        rows.append((f"{format_bytes(one['size'])}{twice}", str(one["row"]), end, origin))
    print_table(out, ("size", "row", "lives", "origin"), rows)
