"""Runs jobs on the stub CUDA runtime, each in a process of its own, several at a time."""

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


class AnyJob(Protocol):
    """A dataclass that says what one process does, and under which settings."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def contender(self) -> str:
        """Whose allocator; `expandable` needs a worker of its own."""

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""


class WorkerError(RuntimeError):
    """A worker that ended without an outcome."""


@dataclass(frozen=True)
class Stub:
    """A Python with the CUDA build of torch, and the stub runtime built for it.

    Args:
        python: its path.
        out: where the stub runtime is.
    """

    python: str
    out: Path
    _workers: threading.local = field(default_factory=threading.local)

    @classmethod
    def build(cls, python: str, out: Path) -> "Stub":
        """Builds the stub, unless it is there and current."""
        command = [sys.executable, str(BUILD), "--python", python, "--out", str(out)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return cls(python, out)

    def run(self, job: Job) -> Outcome:
        """Trains, and returns what the worker reports.

        Jobs with a saved plan record it first, in a process of its own on a card with more memory
        than they have.

        Raises:
            WorkerError: when a worker ends with an error other than out of memory.
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
        """What the worker answers: this thread's for that configuration of PyTorch's allocator.

        Args:
            job: a dataclass that JSON can hold.
            module: what runs it; see `workloads.worker.serve`.

        Raises:
            WorkerError: when the worker says that the job failed, or ends.
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
        """A worker ends when its standard input does, at the latest with this process."""
        paths = os.pathsep.join([str(ROOT / "bench"), str(ROOT)])
        python = os.path.abspath(shutil.which(self.python) or self.python)
        return subprocess.Popen(
            [str(self.out / "run"), python, "-m", module],
            cwd=ROOT,  # it comes first on the path
            env={**os.environ, **job.environment, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
