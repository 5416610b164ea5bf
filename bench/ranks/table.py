"""The table of the README, in Markdown, from the results of `fakecuda_ranks.py`."""

from collections.abc import Iterable, Mapping
from typing import Any

from loops.table import HEADS, markdown

from ranks import TITLES
from ranks.job import CONTENDERS, OURS

Row = Mapping[str, Any]


def table(rows: Iterable[Row]) -> str:
    """Whole run / last third of each contender, one line a program and world."""
    cases: dict[tuple[str, int], dict[tuple[str, bool], Row]] = {}
    for row in rows:
        case = cases.setdefault((row["program"], row["world"]), {})
        case[row["contender"], row["lag"]] = row
    ends = ["bound / reserved", "order", "gap", "requests that map", "hand-overs", "waits added"]
    ends += ["lagging: efficiency", "requests that map", "waits", "of these added"]
    lines = [["program", "world", "live MiB", *(HEADS[one] for one in CONTENDERS), *ends]]
    for (program, world), found in cases.items():
        some = next(iter(found.values()))
        live = f"{some['live'] / 2**20:,.0f}" if "live" in some else ""
        cells = [efficiency(found.get((one, False))) for one in CONTENDERS]
        prompt, late = (
            [row for name in OURS if (row := found.get((name, lag)))] for lag in (False, True)
        )
        lagging = min((row["steady_efficiency"] for row in late if "efficiency" in row), default="")
        lines.append(
            [
                TITLES[program],
                str(world),
                live,
                *cells,
                bound(prompt),
                order(prompt),
                highest(prompt, "gap"),
                *(most(prompt, key) for key in ("requests_that_map", "hand_overs", "waits_added")),
                f"{lagging:.3f}" if lagging else "",
                *(most(late, key) for key in ("requests_that_map", "waits", "waits_added")),
            ]
        )
    return markdown(lines)


def efficiency(row: Row | None) -> str:
    """Over the whole run, and in its last third."""
    if row is None:
        return ""
    if "efficiency" not in row:
        return "failed"
    mark = " (!)" if row["behind"] else ""
    return f"{row['efficiency']:.3f} / {row['steady_efficiency']:.3f}{mark}"


def bound(rows: Iterable[Row]) -> str:
    """The least that any plan needs over what the card held, and how far that is above it."""
    shares = [one["bound_efficiency"] for one in rows if "bound_efficiency" in one]
    return f"{min(shares):.3f}, {1 / min(shares) - 1:.1%}" if shares else ""


def order(rows: Iterable[Row]) -> str:
    """How far what may live at once is above what does in the order of requests."""
    shares = [one["ordered_load"] / one["max_load"] - 1 for one in rows if one.get("ordered_load")]
    return f"{max(shares):.1%}" if shares else ""


def highest(rows: Iterable[Row], key: str) -> str:
    """The largest of the contenders' shares."""
    figures = [row[key] for row in rows if row.get(key) is not None]
    return f"{max(figures):.1%}" if figures else ""


def most(rows: Iterable[Row], key: str) -> str:
    """The largest of the contenders' figures."""
    figures = [row[key] for row in rows if row.get(key) is not None]
    return f"{max(figures):.0f}" if figures else ""
