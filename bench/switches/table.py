"""Markdown table of bench/details.md, from the results of `rules.py`."""

from collections.abc import Iterable, Mapping
from typing import Any

from workloads.columns import Row, markdown

from switches import RULES

ALIKE = 0.0005
"""Relative difference of two peaks below which they count as equal."""

FEW = 1.0
"""Difference in driver calls per iteration below which two figures count as equal."""


def tables(result: Mapping[str, Any]) -> str:
    """Return the table of all rules, and the rules without which nothing gets worse."""
    parts = [_table(result["rows"])]
    if names := ", ".join(f"`{name}`" for name in worthless(result["rows"])):
        parts.append(f"Without these nothing gets worse: {names}.")
    return "\n\n".join(parts)


def _table(rows: Iterable[Row]) -> str:
    """Return a line per rule: the worst and the best change of a loop without it."""
    lines = [["rule", "what it does", "peak without it, worst", "best", "calls, worst", "best"]]
    by_rule: dict[str, list[Row]] = {}
    for row in rows:
        if "over_usual" in row and row["rule"] in RULES:
            by_rule.setdefault(row["rule"], []).append(row)
    for name in RULES:
        own = by_rule.get(name)
        if own:
            lines.append([f"`{name}`", RULES[name].what, *_peaks(own), *_calls(own)])
    return markdown(lines)


def worthless(rows: Iterable[Row]) -> list[str]:
    """Return the rules without which no figure of any loop gets worse."""
    worse: dict[str, bool] = {}
    for row in rows:
        if "over_usual" in row and row["rule"] in RULES:
            bad = row["over_usual"] > 1 + ALIKE or _more(row) > FEW or row["out_of_memory"]
            worse[row["rule"]] = worse.get(row["rule"], False) or bad
    return [name for name, is_worse in worse.items() if not is_worse]


def _more(row: Row) -> float:
    """Return the driver calls per iteration that the rule saves."""
    return float((row["calls"] or 0) - (row["usual_calls"] or 0))


def _peaks(rows: list[Row]) -> list[str]:
    worst = max(rows, key=lambda row: row["over_usual"])
    best = min(rows, key=lambda row: row["over_usual"])
    return [
        "=" if abs(row["over_usual"] - 1) < ALIKE else f"{row['over_usual'] - 1:+.1%} {row['loop']}"
        for row in (worst, best)
    ]


def _calls(rows: list[Row]) -> list[str]:
    worst, best = max(rows, key=_more), min(rows, key=_more)
    return [
        "="
        if abs(_more(row)) < FEW
        else f"{row['usual_calls'] or 0:.0f} to {row['calls'] or 0:.0f} {row['loop']}"
        for row in (worst, best)
    ]
