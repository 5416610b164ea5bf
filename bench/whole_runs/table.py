"""The tables of the README, in Markdown, from the results of `real_programs.py`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loops.table import markdown
from programs import PROGRAMS

Row = Mapping[str, Any]

KEPT = (
    "iterations",
    "recorded",
    "replayed",
    "uncounted",
    "since",
    "run_bytes",
    "run_bytes_hit",
    "misses",
    "plans",
    "replans",
    "arena",
    "max_load",
    "peak_slot_bytes",
    "peak_fallback_bytes",
    "notes",
)
"""What is kept of a session's summary."""


def cpu(rows: Iterable[Row]) -> str:
    """On the CPU, one line a program."""
    lines = [["program", "iterations", "same bits", "from slots", "peak, plain", "above it"]]
    for row in rows:
        title = PROGRAMS[row["program"]].title
        if "identical" not in row:
            lines.append([title, next(f"{key}" for key in ("skipped", "failed") if key in row)])
            continue
        lines.append(
            [
                title,
                str(row["iterations"]),
                "yes" if row["identical"] else "**no**",
                f"{row['from_slots']:.1%}",
                f"{row['plain_peak'] / 2**20:,.0f} MiB",
                f"{row['above_plain'] / 2**20:+.1f} MiB",
            ]
        )
    return markdown(lines)


def stub(rows: Iterable[Row]) -> str:
    """On the stub, one line a program; efficiency is the peak of live bytes over the card's."""
    heads = ["default", "expandable segments", "**pgmo run**", "over expandable"]
    lines = [["program", "live MiB", *heads, "from slots", "requests that map"]]
    by_program: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_program.setdefault(row["program"], {})[row["contender"]] = row
    for name, found in by_program.items():
        title = PROGRAMS[name].title
        ours, expandable = found.get("pgmo_run", {}), found.get("expandable", {})
        if "efficiency" not in ours:
            lines.append([title, next((key for key in ("skipped", "failed") if key in ours), "")])
            continue
        mark = " (!)" if ours["behind"] else ""
        lines.append(
            [
                title,
                f"{ours['live'] / 2**20:,.0f}",
                *(f"{one['efficiency']:.3f}" for one in (found["default"], expandable, ours)),
                f"{ours['over_expandable']:.3f}{mark}",
                f"{ours['from_slots']:.1%}" if ours["iterations"] else "",
                f"{ours['requests_that_map']:.0f}" if ours["iterations"] else "",
            ]
        )
    return markdown(lines)


TABLES: dict[str, Callable[[Iterable[Row]], str]] = {
    "real_programs": cpu,
    "real_programs_stub": stub,
}
"""By the name of the result's file."""
