"""Launcher of jobs on the stub CUDA runtime, each in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workloads.job import StubJob

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "pgmo/rehearsal/build.py"
PATHS = os.pathsep.join([str(ROOT / "bench"), str(ROOT)])
"""Value of `PYTHONPATH` for processes that import modules of this folder."""


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

    def run(
        self, arguments: Sequence[str], settings: Mapping[str, str], timeout: float | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run Python on the stub.

        Args:
            arguments: arguments of Python.
            settings: environment variables, in addition to this process's.
            timeout: maximum seconds of the process; None for no limit.
        """
        return subprocess.run(
            [str(self.out / "run"), self._python, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PATHS, **settings},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def result_of(
        self, arguments: Sequence[str], settings: Mapping[str, str], timeout: float | None = None
    ) -> Any:
        """Run Python on the stub, and return the last line of its output as JSON.

        Raises:
            WorkerError: if the process fails.
        """
        done = self.run(arguments, settings, timeout)
        if done.returncode:
            raise WorkerError(done.stderr[-3000:])
        return json.loads(done.stdout.splitlines()[-1])

    @property
    def _python(self) -> str:
        """Absolute path of the Python; a virtual environment is lost if links are resolved."""
        return os.path.abspath(shutil.which(self.python) or self.python)

    def ask(self, job: StubJob, module: str) -> dict[str, Any]:
        """Send a job to a worker of this thread, and return the answer.

        A thread has one worker per module and configuration of PyTorch's allocator.

        Args:
            job: fields that JSON can represent.
            module: module that runs the job, see `workloads.worker.serve`.

        Raises:
            WorkerError: if the job failed, or the worker ended.
        """
        workers = vars(self._workers).setdefault("by_contender", {})
        key = module, job.contender == "expandable"
        if key not in workers:
            # It ends when its standard input is closed, or this process ends.
            workers[key] = self.start(("-m", module), job.environment, stdin=subprocess.PIPE)
        worker = workers[key]
        print(json.dumps(asdict(job)), file=worker.stdin, flush=True)
        line = worker.stdout.readline()
        result: dict[str, Any] = json.loads(line) if line else {"failed": "the worker ended"}
        if "failed" in result:
            raise WorkerError(f"{job}: {result['failed']}")
        return result

    def start(
        self, arguments: Sequence[str], settings: Mapping[str, str], **pipes: int
    ) -> "subprocess.Popen[str]":
        """Start Python on the stub.

        Args:
            arguments: arguments of Python.
            settings: environment variables, in addition to this process's.
            pipes: `stdin` and `stderr` of the process, as for `subprocess.Popen`.
        """
        return subprocess.Popen(
            [str(self.out / "run"), self._python, *arguments],
            cwd=ROOT,  # first on the path of a module
            env={**os.environ, "PYTHONPATH": PATHS, **settings},
            stdout=subprocess.PIPE,
            text=True,
            **pipes,
        )
