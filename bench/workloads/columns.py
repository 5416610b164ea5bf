"""What the tables of several benchmarks have in common: heads, cells, and columns of costs.

A plan has to show what it adds to pages alone. So each cost has one column, in which pages without
a session stand beside the sessions: `28 / 26 / 26`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

HEADS = {
    "default": "default",
    "expandable": "expandable segments",
    "pages": "pages",
    "pgmo": "**pgmo**",
    "pgmo_run": "**pgmo run**",
    "pgmo_saved_plan": "**pgmo, saved plan**",
    "bound": "bound",
}
"""Of each contender's column, in the order of the columns."""

NAMES = {"pages": "pages", "pgmo": "pgmo", "pgmo_run": "run", "pgmo_saved_plan": "saved plan"}
"""Of the contenders within a column of costs."""

Row = Mapping[str, Any]


def calls(row: Row) -> float | None:
    """The driver's calls per iteration, of all kinds."""
    found: Any = row.get("driver_calls")
    return sum(found.values()) if isinstance(found, Mapping) else found


@dataclass(frozen=True)
class Cost:
    """A column.

    Args:
        figure: of a row; None where it has none.
        of: chooses among the figures of several seeds.
        how: a figure is formatted.
    """

    figure: Callable[[Row], float | None]
    of: Callable[[Iterable[float]], float] = max
    how: str = ".1f"


COSTS = {
    "driver calls": Cost(calls, how=".0f"),
    "requests that map": Cost(lambda row: row.get("requests_that_map")),
    "waits": Cost(lambda row: row.get("waits")),
    "waits added": Cost(lambda row: row.get("waits_added")),
    "hand-overs": Cost(lambda row: row.get("hand_overs"), how=".0f"),
    "CPU": Cost(lambda row: row.get("cpu_over_default"), of=median, how=".2f"),
}
"""By the head of the column. Counts are per iteration of the last third, and of several seeds the
highest. The CPU time is that of all iterations over the default allocator's, and the median."""

USUAL_COSTS = ("driver calls", "requests that map", "waits", "CPU")


def cost_heads(contenders: Iterable[str], costs: Iterable[str] = USUAL_COSTS) -> list[str]:
    """Return the heads of the columns that `cost_cells` fills."""
    order = " / ".join(NAMES[one] for one in contenders)
    return [f"{cost}: {order}" for cost in costs]


def cost_cells(
    found: Mapping[str, list[Row]], contenders: Iterable[str], costs: Iterable[str] = USUAL_COSTS
) -> list[str]:
    """Return one cell a cost, with a figure for each contender.

    Args:
        found: rows of one case, by contender.
        contenders: in the order of the figures.
        costs: keys of `COSTS`.
    """
    ours = [found.get(one, []) for one in contenders]
    return [beside(_figure(COSTS[cost], rows) for rows in ours) for cost in costs]


def _figure(cost: Cost, rows: Iterable[Row]) -> str:
    figures = [one for row in rows if (one := cost.figure(row)) is not None]
    return format(cost.of(figures), cost.how) if figures else ""


def beside(figures: Iterable[str]) -> str:
    """Return one cell with the figures of several contenders; empty if there are none."""
    shown = list(figures)
    return " / ".join(one or "-" for one in shown) if any(shown) else ""


def worst(rows: Iterable[Row], key: str, of: Any, how: str) -> str:
    """The least or largest of the figures that there are."""
    figures = [row[key] for row in rows if row.get(key) is not None]
    return format(of(figures), how) if figures else ""


def markdown(lines: list[list[str]]) -> str:
    """The first line is the head."""
    width = len(lines[0])
    padded = [line + [""] * (width - len(line)) for line in lines]
    padded.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)
