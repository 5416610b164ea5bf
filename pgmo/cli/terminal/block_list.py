"""Lists of blocks, or of sums by origin, for `pgmo stats` with --blocks, --by or --at-peak."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.cli.source import read_profile
from pgmo.cli.terminal.holders import print_held, print_table
from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile
    from pgmo.report.blocks.origins import By

KINDS: "tuple[By, ...]" = ("module", "op", "phase", "file", "stream", "size")
"""Groupings by which blocks can be summed."""


def show_blocks(path: Path, *, at_peak: bool, by: "By | None", top: int, as_json: bool) -> None:
    """List the largest blocks, or their sums by one of `KINDS`."""
    from pgmo.report.findings.moment import find_moment

    profile = read_profile(path)
    moment = find_moment(profile)
    fields = _describe(profile, at_peak, by, top, is_moment=moment is not None)
    if as_json:
        print_json({"file": str(path), **fields})
        return
    if moment is not None:
        print_text(console(), "\n".join(moment.lines()))
    _print(console(), fields)
    if not by:
        print_wrote([], as_command("pgmo stats", path, "--at-peak", "--by", "module"))


def _describe(
    profile: "Profile", at_peak: bool, by: "By | None", top: int, *, is_moment: bool
) -> dict[str, Any]:
    import numpy as np

    from pgmo.report.findings.attribution import alive, hold, peak_tick

    tick = peak_tick(profile)
    copies = alive(profile, tick) if at_peak else np.ones(len(profile), np.int64)
    fields: dict[str, Any] = {
        "at_peak": at_peak,
        "by": by,
        "recorded": not is_moment,
        "tick": tick if at_peak and not is_moment else None,
        "blocks": int(copies.sum()),
        "size": int((profile.size * copies).sum()),
    }
    if by:
        held = hold(profile, copies, by, top)
        fields["rows"] = [
            {"name": one.name, "size": one.size, "blocks": one.blocks} for one in held
        ]
    else:
        rows = np.flatnonzero(copies)
        largest = rows[np.argsort(-profile.size[rows], kind="stable")][:top]
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
