"""Markdown tables of bench/details.md, from the results of `recompute.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from workloads.step import TITLES

Row = Mapping[str, Any]
PEER = "activation_memory_budget"


def tables(result: Mapping[str, Any]) -> str:
    """Return three tables: costs of budgets, measured steps, and verdicts."""
    rows = result["rows"]
    names = list(dict.fromkeys(row["network"] for row in rows))
    return "\n\n".join([_shares(rows, names), _steps(rows, names), _verdicts(result["verdicts"])])


def _shares(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return the share of the forward pass that runs twice, a line per network and planner."""
    fractions = sorted({row["setting"] for row in _of(rows, "pgmo") if _is_number(row)})[::-1]
    lines = [
        ["peak at most", "", *(f"{fraction:g}" for fraction in fractions), "least peak"],
        ["---", "---", *["---:"] * (len(fractions) + 1)],
    ]
    for name in names:
        mine = [row for row in rows if row["network"] == name]
        ours = {row["setting"]: row for row in _of(mine, "pgmo")}
        alone = {row["setting"]: row for row in _of(mine, "pgmo, workspaces not counted")}
        theirs = _of(mine, PEER)
        least = ours.get("min", {}).get("peak_share")
        lines.append([TITLES[name], "pgmo", *(_share(ours.get(one)) for one in fractions)])
        lines[-1].append("" if least is None else f"{least:.2f}")
        lines.append(
            ["", "pgmo, workspaces not counted", *(_share(alone.get(one)) for one in fractions), ""]
        )
        asked = (_cheapest(theirs, one) if one in ours else "" for one in fractions)
        lines.append(["", PEER, *asked])
        lines[-1].append(f"{min((row['peak_share'] for row in theirs), default=1.0):.2f}")
    return _markdown(lines)


def _steps(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return peaks and times of the measured ways."""
    lines = [
        [
            *("network", "way", "setting", "peak", "of plain", "predicted", "run twice"),
            *("time", "fastest", "bits"),
        ],
        ["---", "---", *["---:"] * 7, "---"],
    ]
    for name in names:
        for row in rows:
            if row["network"] != name or "peak" not in row:
                continue
            predicted = f"{row['predicted'] / row['peak'] - 1:+.1%}" if "predicted" in row else ""
            share = "" if row["share"] is None else f"{row['share']:.3f}"
            changed = [what for what, same in row["same"].items() if not same]
            error = row["largest_relative_error"]
            bits = f"other {', '.join(changed)}" if changed else "same"
            bits += f" ({error:.0e})" if "gradients" in changed else ""
            lines.append(
                [
                    TITLES[name],
                    row["way"],
                    "" if row["setting"] is None else str(row["setting"]),
                    f"{row['peak'] / 2**20:.0f} MiB",
                    f"{row['peak_share']:.2f}",
                    predicted,
                    share,
                    f"{row['time_against_plain']:.2f}x",
                    f"{row['fastest_against_plain']:.2f}x",
                    bits,
                ]
            )
    return _markdown(lines)


def _verdicts(verdicts: Sequence[Row]) -> str:
    lines = [
        [
            "network",
            "pgmo: monotone",
            "most above its budget",
            "same bits",
            f"{PEER}: monotone",
            "largest error of a gradient",
        ],
        ["---"] * 6,
    ]
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
    return _markdown(lines)


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


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
