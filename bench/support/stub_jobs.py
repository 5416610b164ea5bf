"""Code that benchmarks on the stub CUDA runtime share: jobs, rows, sessions, options."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from workloads.job import OURS, StubJob
from workloads.launch import ROOT, WorkerError

from support.machine import table_parser

Row = dict[str, Any]

TOLERANCE = 1.005
"""Maximum ratio of pgmo's peak to the peak of each PyTorch allocator. Above it, pgmo is behind."""


def row_of(job: StubJob, answer: Callable[[], Row], *fields: str) -> Row:
    """Return fields of the job with the answer of its process, or with its failure."""
    row = {name: getattr(job, name) for name in (*fields, "contender", "card")}
    try:
        return row | answer()
    except WorkerError as error:
        return row | {"failed": str(error)}


def compare(row: Row, default: Row, expandable: Row) -> None:
    """Add the figures that need the runs of PyTorch's allocators, if no run failed."""
    if any("peak" not in one for one in (row, default, expandable)):
        return
    row["live"] = default["requested"]
    row["efficiency"] = row["live"] / row["peak"]
    row["over_expandable"] = row["peak"] / expandable["peak"]
    row["over_default"] = row["peak"] / default["peak"]
    row["cpu_over_default"] = row["cpu_seconds"] / default["cpu_seconds"]
    over = max(row["over_expandable"], row["over_default"])
    row["behind"] = row["contender"] in OURS and (
        over > TOLERANCE or bool(row.get("out_of_memory"))
    )


def open_session(wanted: bool) -> Any:
    """Return a session of pgmo if wanted, or a context that does nothing."""
    if not wanted:
        return contextlib.nullcontext()
    import pgmo

    return pgmo.optimize(device="cuda")


def about_session(session: Any, late_from: int) -> Row:
    """Return the session's counters; shares are of the iterations from `late_from` on."""
    late = session.history[late_from:]
    asked = sum(one.bytes_requested for one in late)
    summary = session.summary()
    return {
        "from_slots": sum(one.bytes_hit for one in late) / asked if asked else None,
        "replans": summary.replans,
        "notes": list(summary.notes),
        "growth": summary.growth and str(summary.growth),
        "replayed": sum(one.phase.value == "replay" for one in session.history),
    }


def stub_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks on the stub.

    Args:
        description: the module's docstring, whose first line is shown.
    """
    parser = table_parser(description)
    parser.add_argument("--python", default=sys.executable, help="Python with the CUDA torch")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda", help="stub runtime")
    return parser


def earlier_rows(path: Path) -> list[Row]:
    """Return the rows of an earlier result; an empty list if there is no file."""
    found: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    return found


def replaced(earlier: Iterable[Row], rows: Iterable[Row], *fields: str) -> list[Row]:
    """Return earlier and new rows. A new row replaces an earlier row with equal fields."""
    found = {json.dumps([row[name] for name in fields]): row for row in (*earlier, *rows)}
    return list(found.values())
