"""Markdown tables of bench/details.md, from the results of `never_worse.py`."""

from collections.abc import Iterable

from workloads.columns import HEADS, Row, cost_cells, cost_heads, markdown, worst
from workloads.job import CONTENDERS, OURS

from loops import TITLES

PEAKS = [HEADS[name] for name in CONTENDERS]
BEHIND = "(!)"


def peaks(rows: Iterable[Row]) -> str:
    """Return the table of efficiencies, one line per loop; of several seeds the worst figures."""
    lines = [["loop", "live MiB", *PEAKS, "over expandable", *cost_heads(OURS)]]
    for loop, found in by_loop(rows).items():
        every = [row for of_one in found.values() for row in of_one]
        live = [row["live"] for row in every if "live" in row]
        skipped = {row["skipped"] for row in every if "skipped" in row}
        if skipped:
            lines.append([TITLES[loop], f"skipped: {', '.join(sorted(skipped))}"])
            continue
        ours = [row for contender in OURS for row in found.get(contender, [])]
        lines.append(
            [
                TITLES[loop],
                " to ".join(dict.fromkeys(f"{f(live) / 2**20:,.0f}" for f in (min, max)))
                if live
                else "",
                *(efficiency(found.get(contender, [])) for contender in CONTENDERS),
                worst(ours, "over_expandable", max, ".3f"),
                *cost_cells(found, OURS),
            ]
        )
    return markdown(lines)


def short(rows: Iterable[Row]) -> str:
    """Return the table of short runs: peaks over the better of PyTorch's two allocators.

    Of several seeds the worst count. Costs are over runs of all numbers of iterations.
    """
    every = list(rows)
    lengths = sorted({row["iterations"] for row in every})
    heads = [f"{HEADS[name]}, {length}" for name in OURS for length in lengths]
    lines = [["loop", *heads, *cost_heads(OURS)]]
    for loop, found in by_loop(every).items():
        cells = [
            over_best([row for row in found.get(name, []) if row["iterations"] == length])
            for name in OURS
            for length in lengths
        ]
        lines.append([TITLES[loop], *cells, *cost_cells(found, OURS)])
    return markdown(lines)


def over_best(rows: list[Row]) -> str:
    """Return the worst ratio to PyTorch's better peak, marked where pgmo is behind."""
    best = [{"over": max(r["over_expandable"], r["over_default"])} for r in rows if "behind" in r]
    mark = f" {BEHIND}" if any(row.get("behind") or "failed" in row for row in rows) else ""
    return worst(best, "over", max, ".3f") + mark


def by_loop(rows: Iterable[Row]) -> dict[str, dict[str, list[Row]]]:
    """Group rows by loop, and then by contender."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row["loop"], {}).setdefault(row["contender"], []).append(row)
    return found


def efficiency(rows: list[Row]) -> str:
    """Return the worst efficiency of the seeds, marked if pgmo is behind with one of them."""
    if any("failed" in row for row in rows):
        return f"failed {BEHIND}"
    if any(row.get("out_of_memory") for row in rows):
        return f"out of memory {BEHIND}"
    mark = f" {BEHIND}" if any(row.get("behind") for row in rows) else ""
    return worst(rows, "efficiency", min, ".3f") + mark
