"""Markdown tables of bench/details.md, from the results of `recompute.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from workloads.columns import Row, markdown
from workloads.step import TITLES

PEER = "activation_memory_budget"


def tables(result: Mapping[str, Any]) -> str:
    """Return three tables: costs of budgets, measured steps, and verdicts."""
    rows = result["rows"]
    names = list(dict.fromkeys(row["network"] for row in rows))
    return "\n\n".join([_shares(rows, names), _steps(rows, names), _verdicts(result["verdicts"])])


def _shares(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return the share of the forward pass that runs twice, a line per network and planner."""
    fractions = sorted({row["setting"] for row in _of(rows, "pgmo") if _is_number(row)})[::-1]
    head = ["peak at most", "", *(f"{fraction:g}" for fraction in fractions), "least peak"]
    lines = []
    for name in names:
        mine = [row for row in rows if row["network"] == name]
        ours = {row["setting"]: row for row in _of(mine, "pgmo")}
        alone = {row["setting"]: row for row in _of(mine, "pgmo, workspaces not counted")}
        theirs = _of(mine, PEER)
        least = ours.get("min", {}).get("peak_share")
        lowest = min((row["peak_share"] for row in theirs), default=1.0)
        lines += [
            [TITLES[name], "pgmo", *(_share(ours.get(one)) for one in fractions)],
            ["", "pgmo, workspaces not counted", *(_share(alone.get(one)) for one in fractions)],
            ["", PEER, *(_cheapest(theirs, one) if one in ours else "" for one in fractions)],
        ]
        for line, peak in zip(lines[-3:], (least, None, lowest), strict=True):
            line.append("" if peak is None else f"{peak:.2f}")
    return markdown([head, *lines], right=range(2, len(head)))


def _steps(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return peaks and times of the measured ways."""
    head = ["network", "way", "setting", "peak", "of plain", "predicted", "run twice"]
    lines = []
    for row in (row for name in names for row in rows if row["network"] == name):
        if "peak" not in row:
            continue
        changed = [what for what, same in row["same"].items() if not same]
        error = row["largest_relative_error"]
        bits = f"other {', '.join(changed)}" if changed else "same"
        lines.append(
            [
                TITLES[row["network"]],
                row["way"],
                "" if row["setting"] is None else str(row["setting"]),
                f"{row['peak'] / 2**20:.0f} MiB",
                f"{row['peak_share']:.2f}",
                f"{row['predicted'] / row['peak'] - 1:+.1%}" if "predicted" in row else "",
                "" if row["share"] is None else f"{row['share']:.3f}",
                f"{row['time_against_plain']:.2f}x",
                f"{row['fastest_against_plain']:.2f}x",
                bits + (f" ({error:.0e})" if "gradients" in changed else ""),
            ]
        )
    return markdown([[*head, "time", "fastest", "bits"], *lines], right=range(2, 9))


def _verdicts(verdicts: Sequence[Row]) -> str:
    head = ["network", "pgmo: monotone", "most above its budget", "same bits"]
    lines = []
    for one in verdicts:
        above = one["most_above_budget"]
        lines.append(
            [
                TITLES[one["network"]],
                _yes(one["monotone"]),
                "" if above is None else f"{above:+.1%}",
                _yes(one["same_bits"]),
                _yes(one[f"{PEER}_monotone"]),
                f"{one[f'{PEER}_largest_error']:.1g}",
            ]
        )
    return markdown([[*head, f"{PEER}: monotone", "largest error of a gradient"], *lines])


def _of(rows: Sequence[Row], way: str) -> list[Row]:
    return [row for row in rows if row["way"] == way]


def _is_number(row: Row) -> bool:
    return isinstance(row["setting"], (int, float))


def _share(row: Row | None) -> str:
    if row is None:
        return ""
    return "cannot" if "failed" in row else f"{row['share']:.3f}"


def _cheapest(rows: Sequence[Row], fraction: float) -> str:
    """Return the lowest cost of a measured step within 1.02 of the fraction, or "cannot"."""
    fitting = [row["share"] for row in rows if row["peak_share"] <= 1.02 * fraction]
    return f"{min(fitting):.3f}" if fitting else "cannot"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
