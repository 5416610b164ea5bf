"""Markdown table of bench/details.md, from the results of `fakecuda_ranks.py`."""

from collections.abc import Iterable

from workloads.columns import HEADS, NAMES, Row, beside, cost_cells, cost_heads, markdown, worst
from workloads.job import CONTENDERS, OURS

from ranks import TITLES

PROMPT = ("driver calls", "requests that map", "hand-overs", "waits added", "CPU")
LAGGING = ("driver calls", "requests that map", "waits", "waits added")
"""Columns of costs of runs without lag (`PROMPT`), and of runs with lagging streams."""


def table(rows: Iterable[Row]) -> str:
    """Return the table, one line per program and world."""
    cases: dict[tuple[str, int], dict[tuple[str, bool], Row]] = {}
    for row in rows:
        case = cases.setdefault((row["program"], row["world"]), {})
        case[row["contender"], row["lag"]] = row
    heads = ["program", "world", "live MiB", *(HEADS[one] for one in CONTENDERS)]
    heads += ["bound / reserved", "order", "gap", *cost_heads(OURS, PROMPT)]
    heads += ["lagging, efficiency: " + " / ".join(NAMES[one] for one in OURS)]
    heads += [f"lagging, {head}" for head in cost_heads(OURS, LAGGING)]
    lines = [heads]
    for (program, world), found in cases.items():
        some = next(iter(found.values()))
        live = f"{some['live'] / 2**20:,.0f}" if "live" in some else ""
        cells = [efficiency(found.get((one, False))) for one in CONTENDERS]
        prompt, late = (
            {name: [found[name, lag]] for name in OURS if (name, lag) in found}
            for lag in (False, True)
        )
        sessions = [row for name in OURS[1:] for row in prompt.get(name, [])]
        lines.append(
            [
                TITLES[program],
                str(world),
                live,
                *cells,
                bound(sessions),
                order(sessions),
                highest(sessions, "gap"),
                *cost_cells(prompt, OURS, PROMPT),
                beside(worst(late.get(one, []), "steady_efficiency", min, ".3f") for one in OURS),
                *cost_cells(late, OURS, LAGGING),
            ]
        )
    return markdown(lines)


def efficiency(row: Row | None) -> str:
    """Return the efficiency of the whole run, and of its last third."""
    if row is None:
        return ""
    if "efficiency" not in row:
        return "failed"
    mark = " (!)" if row["behind"] else ""
    return f"{row['efficiency']:.3f} / {row['steady_efficiency']:.3f}{mark}"


def bound(rows: Iterable[Row]) -> str:
    """Return the bound over the card's peak, and how far the peak is above the bound."""
    shares = [one["bound_efficiency"] for one in rows if "bound_efficiency" in one]
    return f"{min(shares):.3f}, {1 / min(shares) - 1:.1%}" if shares else ""


def order(rows: Iterable[Row]) -> str:
    """Return how far the ordered load is above the max load."""
    shares = [one["ordered_load"] / one["max_load"] - 1 for one in rows if one.get("ordered_load")]
    return f"{max(shares):.1%}" if shares else ""


def highest(rows: Iterable[Row], key: str) -> str:
    """Return the largest share of the contenders."""
    figures = [row[key] for row in rows if row.get(key) is not None]
    return f"{max(figures):.1%}" if figures else ""
