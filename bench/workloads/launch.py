"""Launcher of jobs on the stub CUDA runtime, each in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from workloads.job import SAVED_PLAN, Job, Outcome

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "pgmo/rehearsal/build.py"
RECORDING_CARD = 64 << 30
"""Least bytes of the card on which a plan is recorded."""


class AnyJob(Protocol):
    """Dataclass with the job of one process, and its environment."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def contender(self) -> str:
        """Allocator of the job; `expandable` needs a worker of its own."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the job's process."""


class WorkerError(RuntimeError):
    """A worker ended without an outcome, or its job failed."""


@dataclass(frozen=True)
class Stub:
    """Python with the CUDA build of torch, and the stub runtime that was built for it.

    Args:
        python: path of the Python.
        out: folder of the stub runtime.
    """

    python: str
    out: Path
    _workers: threading.local = field(default_factory=threading.local)

    @classmethod
    def build(cls, python: str, out: Path) -> "Stub":
        """Build the stub, unless it exists and is current."""
        command = [sys.executable, str(BUILD), "--python", python, "--out", str(out)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return cls(python, out)

    def run(self, job: Job) -> Outcome:
        """Train, and return the worker's outcome.

        For a job with a saved plan, an earlier run records it, in a process of its own on a card of
        at least 64 GiB.

        Raises:
            WorkerError: if a worker fails otherwise than out of memory, or no plan was saved.
        """
        if job.contender != SAVED_PLAN:
            return self._train(job)
        with tempfile.TemporaryDirectory() as folder:
            card = max(job.card, RECORDING_CARD)
            recorded = self._train(replace(job, save=folder, card=card))
            plan = Path(folder) / f"{job.network}.pgmoplan"
            if recorded.out_of_memory or not plan.exists():
                raise WorkerError(f"no plan was saved for {job}: {recorded.error}")
            return self._train(replace(job, plan=str(plan)))

    def _train(self, job: Job) -> Outcome:
        return Outcome(**self.ask(job, "workloads.worker"))

    def ask(self, job: AnyJob, module: str) -> dict[str, Any]:
        """Send a job to a worker of this thread, and return the answer.

        A thread has one worker per module and configuration of PyTorch's allocator.

        Args:
            job: a dataclass that JSON can represent.
            module: module that runs the job, see `workloads.worker.serve`.

        Raises:
            WorkerError: if the job failed, or the worker ended.
        """
        workers = vars(self._workers).setdefault("by_contender", {})
        key = module, job.contender == "expandable"
        if key not in workers:
            workers[key] = self._start(job, module)
        worker = workers[key]
        print(json.dumps(asdict(job)), file=worker.stdin, flush=True)
        line = worker.stdout.readline()
        result: dict[str, Any] = json.loads(line) if line else {"failed": "the worker ended"}
        if "failed" in result:
            raise WorkerError(f"{job}: {result['failed']}")
        return result

    def _start(self, job: AnyJob, module: str) -> "subprocess.Popen[str]":
        """Start a worker, which ends with its standard input, at the latest with this process."""
        paths = os.pathsep.join([str(ROOT / "bench"), str(ROOT)])
        python = os.path.abspath(shutil.which(self.python) or self.python)
        return subprocess.Popen(
            [str(self.out / "run"), python, "-m", module],
            cwd=ROOT,  # first on the worker's path
            env={**os.environ, **job.environment, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
