"""Code that benchmarks on the stub CUDA runtime share: jobs, rows, sessions, options."""

import argparse
import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.job import process_settings
from workloads.launch import ROOT, WorkerError

from support.machine import add_common_options

Row = dict[str, Any]

LARGE_CARD = 141 << 30
"""Bytes of an H200. On a card of this size no allocator frees memory for want of it."""


@dataclass(frozen=True, kw_only=True)
class StubJob:
    """Job of one process.

    Args:
        contender: one of `workloads.job.CONTENDERS`, or of the benchmark's own contenders.
        card: bytes of device memory.
        small: whether to build a tiny network, for tests.
    """

    contender: str = "default"
    card: int = LARGE_CARD
    small: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the job's process."""
        return process_settings(self.contender, self.card)


def row_of(job: StubJob, answer: Callable[[], Row], *fields: str) -> Row:
    """Return fields of the job with the answer of its process, or with its failure."""
    row = {name: getattr(job, name) for name in (*fields, "contender", "card")}
    try:
        return row | answer()
    except WorkerError as error:
        return row | {"failed": str(error)}


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
    parser = argparse.ArgumentParser(description=description.partition("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="one with the CUDA torch")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda", help="its folder")
    parser.add_argument("--table", action="store_true", help="print tables of earlier runs")
    add_common_options(parser)
    return parser
