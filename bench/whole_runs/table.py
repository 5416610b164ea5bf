"""Markdown tables of bench/details.md, from the results of `real_programs.py`."""

from collections.abc import Callable, Iterable

from programs import PROGRAMS
from workloads.columns import HEADS, Row, cost_cells, cost_heads, markdown

from whole_runs import CONTENDERS, OURS


def cpu(rows: Iterable[Row]) -> str:
    """Return the table of the CPU, one line per program."""
    heads = ["program", "iterations", "same bits", "from slots", "peak, plain", "above it", "CPU"]
    lines = [heads]
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
                f"{row['cpu_over_plain']:.2f}" if "cpu_over_plain" in row else "",
            ]
        )
    return markdown(lines)


def stub(rows: Iterable[Row]) -> str:
    """Return the table of the stub, one line per program."""
    heads = ["program", "live MiB", *(HEADS[one] for one in CONTENDERS), "over expandable"]
    lines = [[*heads, "from slots", *cost_heads(OURS)]]
    by_program: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_program.setdefault(row["program"], {})[row["contender"]] = row
    for name, found in by_program.items():
        title = PROGRAMS[name].title
        ours = found.get("pgmo_run", {})
        if "efficiency" not in ours:
            lines.append([title, next((key for key in ("skipped", "failed") if key in ours), "")])
            continue
        mark = " (!)" if ours["behind"] else ""
        rows_of = {name: [row] for name, row in found.items()}
        lines.append(
            [
                title,
                f"{ours['live'] / 2**20:,.0f}",
                *(f"{found[one]['efficiency']:.3f}" if one in found else "" for one in CONTENDERS),
                f"{ours['over_expandable']:.3f}{mark}",
                f"{ours['from_slots']:.1%}" if ours["iterations"] else "",
                *cost_cells(rows_of, OURS),
            ]
        )
    return markdown(lines)


TABLES: dict[str, Callable[[Iterable[Row]], str]] = {
    "real_programs": cpu,
    "real_programs_stub": stub,
}
"""Function that makes the table of each result, by the name of its file."""
