"""Trainings in processes of their own on one card of the stub, with a broker or without."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workloads.launch import ROOT, Stub, WorkerError

from shared.job import OURS, SharedJob

MODULE = "shared.one_process"
BATCHES = (8, 4, 6, 2)


def ask(stub: Stub, job: SharedJob) -> dict[str, Any]:
    """Runs all of a job's processes at once; what they say together.

    Raises:
        WorkerError: when one of them fails otherwise than by running out of memory.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(folder) if job.contender in OURS else no_broker():
            processes = [start(stub, job, at, folder) for at in range(job.models)]
            said = [process.communicate() for process in processes]
        found = []
        for process, (output, errors) in zip(processes, said, strict=True):
            if process.returncode:
                raise WorkerError(f"{job}: {errors[-2000:]}")
            found.append(json.loads(output.splitlines()[-1]))
        return together(found, folder / "log")


def start(stub: Stub, job: SharedJob, at: int, folder: Path) -> "subprocess.Popen[str]":
    """One of the processes. It waits for the others when its model is built, and at its end."""
    python = os.path.abspath(shutil.which(stub.python) or stub.python)
    paths = os.pathsep.join([str(ROOT / "bench"), str(ROOT)])
    settings = {**job.environment, "FAKECUDA_SHARED": str(folder / "card"), "PYTHONPATH": paths}
    if job.contender in OURS:
        settings["PGMO_SHARE"] = str(folder / "socket" / "share")
    fields = {"job": asdict(job), "at": at, "batch": BATCHES[at], "folder": str(folder)}
    return subprocess.Popen(
        [str(stub.out / "run"), python, "-m", MODULE, json.dumps(fields)],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """A broker for them, in a thread of this process."""
    from pgmo.share.broker import Broker
    from pgmo.share.schedule import Rules

    # The machine may be busy, and time means nothing here. Of a card as large as this one all would
    # keep their arenas: there is room.
    rules = Rules(deadline=600.0, patience=3600.0, total=1)
    with Broker(folder / "socket" / "share", rules, folder / "log") as broker:
        thread = threading.Thread(target=broker.run)
        thread.start()
        try:
            yield
        finally:
            broker.stop()
            thread.join()


@contextmanager
def no_broker() -> Iterator[None]:
    """Nothing."""
    yield


def together(found: list[dict[str, Any]], log: Path) -> dict[str, Any]:
    """What several processes say, as one row."""
    row: dict[str, Any] = {
        "peak": max(one["peak"] for one in found),
        "out_of_memory": any(one["error"] for one in found),
        "error": next((one["error"] for one in found if one["error"]), ""),
        "seconds": max(one["seconds"] for one in found),
        "torch": found[0]["torch"],
        "persistent": sum(one["persistent"] for one in found),
        "arenas": [one["arena"] for one in found if one["arena"]],
        "replayed": [one["replayed"] for one in found],
        "calls": [one["calls"] for one in found],
        "notes": [note for one in found for note in one["notes"]],
    }
    asked = sum(one["asked"] for one in found)
    row["from_slots"] = sum(one["hit"] for one in found) / asked if asked else None
    if log.exists():
        from tests.unit.share.oracle import check

        verdict = check(log, slack=60.0)
        row |= {"turns": verdict.turns, "passed": verdict.passed, "wrong": verdict.wrong}
    return row


def fits(stub: Stub, job: SharedJob, card: int) -> bool:
    """Whether the same processes run without pgmo on a smaller card."""
    return not ask(stub, replace(job, contender="expandable", card=card))["out_of_memory"]
