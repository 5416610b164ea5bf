"""Trainings in their own processes on one card of the stub, with or without a broker."""

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workloads.launch import Stub, WorkerError

from shared import BATCHES, OURS, SharedJob

MODULE = "shared.one_process"


def ask(stub: Stub, job: SharedJob) -> dict[str, Any]:
    """Run all processes of a job at once; return their figures as one row.

    Raises:
        WorkerError: if a process fails otherwise than by running out of memory.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(folder) if job.contender in OURS else nullcontext():
            processes = [start(stub, job, at, folder) for at in range(job.models)]
            said = [process.communicate() for process in processes]
        found = []
        for process, (output, errors) in zip(processes, said, strict=True):
            if process.returncode:
                raise WorkerError(f"{job}: {errors[-2000:]}")
            found.append(json.loads(output.splitlines()[-1]))
        return together(found, folder / "log")


def start(stub: Stub, job: SharedJob, at: int, folder: Path) -> "subprocess.Popen[str]":
    """Start a process. After building its model and at its end, it waits for all processes."""
    settings = {**job.environment, "FAKECUDA_SHARED": str(folder / "card")}
    if job.contender in OURS:
        settings["PGMO_SHARE"] = str(folder / "socket" / "share")
    fields = {"job": asdict(job), "at": at, "batch": BATCHES[at], "folder": str(folder)}
    return stub.start(("-m", MODULE, json.dumps(fields)), settings, stderr=subprocess.PIPE)


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """Run a broker in a thread of this process."""
    from pgmo.share.broker import Broker
    from pgmo.share.schedule import Rules

    # Long time limits, because the machine may be busy. With the card's real size, all processes
    # could keep their arenas at the same time.
    rules = Rules(deadline=600.0, patience=3600.0, total=1)
    with Broker(folder / "socket" / "share", rules, folder / "log") as broker:
        thread = threading.Thread(target=broker.run)
        thread.start()
        try:
            yield
        finally:
            broker.stop()
            thread.join()


def together(found: list[dict[str, Any]], log: Path) -> dict[str, Any]:
    """Return the figures of several processes as one row."""
    row: dict[str, Any] = {
        "peak": max(one["peak"] for one in found),
        "out_of_memory": any(one["error"] for one in found),
        "error": next((one["error"] for one in found if one["error"]), ""),
        "seconds": max(one["seconds"] for one in found),
        "torch": found[0]["torch"],
        "persistent": sum(one["persistent"] for one in found),
        "arenas": [one["arena"] for one in found if one["arena"]],
        "notes": [note for one in found for note in one["notes"]],
    }
    if log.exists():
        from tests.unit.share.oracle import check

        verdict = check(log, slack=60.0)
        row |= {"turns": verdict.turns, "passed": verdict.passed, "wrong": verdict.wrong}
    return row


def fits(stub: Stub, job: SharedJob, card: int) -> bool:
    """Return whether the same processes run with expandable segments on a card of `card` bytes."""
    return not ask(stub, replace(job, contender="expandable", card=card))["out_of_memory"]
