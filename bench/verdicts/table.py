"""Judgement of verdicts, and the table of `verdict.py`."""

from collections.abc import Iterable
from typing import Any

from workloads.columns import Row, markdown

MIB = 1 << 20
SAME = 0.03
"""Share of plain PyTorch's bytes below which the sentence says "about the same"."""


def judged(row: Row) -> dict[str, Any]:
    """Compare the verdict with the two real runs.

    Args:
        row: `plain` and `taken` of the real runs, and the `verdict` of `pgmo run`, in bytes.

    Returns:
        The real and the stated saving as shares, their distance in points, and whether the verdict
        is right. A right verdict is at most 3 points away, and has the right sign if the real
        saving is above 3 %. A right verdict says "about the same" exactly if the stated saving is
        below 3 %.
    """
    real = 1 - row["taken"] / row["plain"]
    verdict = row["verdict"]
    if not verdict["plain"]:
        return {"real": real, "stated": None, "points": None, "right": False}
    stated = 1 - verdict["taken"] / verdict["plain"]
    points = 100 * abs(stated - real)
    same_sign = (stated > 0) == (real > 0)
    says_same = "about the same" in verdict["sentence"]
    return {
        "real": real,
        "stated": stated,
        "points": points,
        "right": points <= 3
        and says_same == (abs(stated) < SAME)
        and (abs(real) <= SAME or same_sign),
    }


def table(rows: Iterable[Row]) -> str:
    """Return the table of bench/details.md."""
    heads = "program", "plain, MiB", "modelled", "pgmo, MiB", "counted", "real", "stated"
    lines = [list(heads)]
    for row in rows:
        if "right" not in row:
            lines.append([row["label"], f"{row.get('failed') or row.get('skipped')}"])
            continue
        verdict = row["verdict"]
        stated = "none" if row["stated"] is None else f"{-row['stated']:+.1%}"
        taken = row["plain"], verdict["plain"], row["taken"], verdict["taken"]
        sizes = [f"{size / MIB:,.0f}" for size in taken]
        wrong = "" if row["right"] else " **wrong**"
        lines.append([row["label"], *sizes, f"{-row['real']:+.1%}", stated + wrong])
    return markdown(lines)
