"""Heads, cells and columns of costs that tables of several benchmarks share.

To show what a plan adds to pages, each cost has one column with a figure for pages without a
session and one for each session: `28 / 26 / 26`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
"""Head of each contender's column, in the order of the columns."""

NAMES = {"pages": "pages", "pgmo": "pgmo", "pgmo_run": "run", "pgmo_saved_plan": "saved plan"}
"""Names of contenders in the head of a column of costs."""

Row = Mapping[str, Any]


def calls(row: Row) -> float | None:
    """Return the driver calls per iteration, of all kinds; None if they were not counted."""
    found: Any = row.get("driver_calls")
    return sum(found.values()) if isinstance(found, Mapping) else found


@dataclass(frozen=True)
class Cost:
    """Column of costs.

    Args:
        figure: returns the figure of a row; None if the row has none.
        of: chooses among the figures of several seeds.
        how: format of a figure.
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
"""Columns by their head. Counts are per iteration of the last third, and the highest of several
seeds counts. CPU time is that of all iterations over the default allocator's, and the median
counts."""

USUAL_COSTS = ("driver calls", "requests that map", "waits", "CPU")


def cost_heads(contenders: Iterable[str], costs: Iterable[str] = USUAL_COSTS) -> list[str]:
    """Return the heads of the columns that `cost_cells` fills."""
    order = " / ".join(NAMES[one] for one in contenders)
    return [f"{cost}: {order}" for cost in costs]


def cost_cells(
    found: Mapping[str, list[Row]], contenders: Iterable[str], costs: Iterable[str] = USUAL_COSTS
) -> list[str]:
    """Return one cell per cost, with a figure for each contender.

    Args:
        found: rows of one case, by contender.
        contenders: contenders in the order of the figures.
        costs: keys of `COSTS`.
    """
    ours = [found.get(one, []) for one in contenders]
    return [beside(_figure(COSTS[cost], rows) for rows in ours) for cost in costs]


def _figure(cost: Cost, rows: Iterable[Row]) -> str:
    figures = [one for row in rows if (one := cost.figure(row)) is not None]
    return format(cost.of(figures), cost.how) if figures else ""


def beside(figures: Iterable[str]) -> str:
    """Return one cell with the figures of several contenders, or "" if all are missing."""
    shown = list(figures)
    return " / ".join(one or "-" for one in shown) if any(shown) else ""


def worst(rows: Iterable[Row], key: str, of: Any, how: str) -> str:
    """Return the least or largest figure of rows that have one, formatted; "" if none has."""
    figures = [row[key] for row in rows if row.get(key) is not None]
    return format(of(figures), how) if figures else ""


def markdown(lines: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return a Markdown table.

    Args:
        lines: cells of each line, the head first. Lines may be shorter than the head.
        right: numbers of the columns that are aligned to the right.
    """
    head, *others = lines
    rule = ["---:" if column in right else "---" for column in range(len(head))]
    padded = ([*line, *[""] * (len(head) - len(line))] for line in (head, rule, *others))
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)
