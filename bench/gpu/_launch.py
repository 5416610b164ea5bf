"""Processes of workers within a time budget, and results with a description of the GPU."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _worker import Job, Outcome

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT)]  # for support, and for pgmo when not installed
from support.machine import add_common_options, write_result  # noqa: E402

_EXPANDABLE = "expandable_segments:True"
_PATIENT, _LEAST = 3600, 3
"""Time budget of a quick run, and the least time in which a process is started; in seconds."""


class WorkerError(Exception):
    """A worker failed, or took too long."""


class TooLongError(WorkerError):
    """A worker took longer than one process may."""


class OutOfTimeError(Exception):
    """The time budget was over, which is no failure."""

    def __init__(self) -> None:
        super().__init__("left out: the time was over")


@dataclass
class Budget:
    """Time budget, which begins when the object is created.

    Args:
        seconds: limit for all processes together.
        longest: limit for one process, in seconds.
    """

    seconds: float
    longest: float = 90

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self._end - time.monotonic())

    def for_one(self) -> float:
        """Return the seconds that a process may take now.

        Raises:
            OutOfTimeError: if fewer than `_LEAST` are left.
        """
        seconds = min(self.longest, self.left)
        if seconds < _LEAST:
            raise OutOfTimeError
        return seconds


def environment(allocator: str) -> dict[str, str]:
    """Return a worker's environment: this process's, the allocator's setting, and paths."""
    path = [str(HERE.parent), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    chosen = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONWARNINGS": "ignore"}
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        chosen.pop(name, None)
    if allocator == "expandable":
        chosen["PYTORCH_CUDA_ALLOC_CONF"] = _EXPANDABLE
    return chosen


def gpu_parser(description: str, seconds: float) -> argparse.ArgumentParser:
    """Return the options that all of these benchmarks have.

    Args:
        description: the module's docstring, whose first line is shown.
        seconds: default time budget.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=seconds, help="time budget")
    add_common_options(parser)
    return parser


def budget_of(arguments: argparse.Namespace) -> Budget:
    """Return the time budget of the command line; a quick run has an hour."""
    return Budget(_PATIENT, _PATIENT) if arguments.quick else Budget(arguments.seconds)


def run_worker(
    command: Sequence[str], allocator: str, budget: Budget, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python in a fresh process, for as long as the budget allows.

    Args:
        command: arguments of Python.
        allocator: contender whose settings the process gets.
        budget: time budget.
        how: `settings`, further environment variables, and `cwd`, the working directory.

    Raises:
        WorkerError: if the process fails, or takes longer than one process may.
        OutOfTimeError: if the budget is over before the process ends.
    """
    timeout = budget.for_one()
    try:
        done = subprocess.run(
            [sys.executable, *command],
            env=environment(allocator) | how.get("settings", {}),
            cwd=how.get("cwd"),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        if timeout < budget.longest:
            raise OutOfTimeError from error
        raise TooLongError(f"took longer than {timeout:.0f} s") from error
    if done.returncode:
        last = " | ".join(done.stderr.splitlines()[-3:])
        raise WorkerError(f"exit code {done.returncode}: {last}")
    return done


def launch(job: Job, budget: Budget) -> Outcome:
    """Run the job in a fresh process; out of memory is an outcome.

    Raises:
        WorkerError: if the process fails otherwise, or takes longer than one process may.
        OutOfTimeError: if the budget is over before the process ends.
    """
    command = (str(HERE / "_worker.py"), json.dumps(asdict(job)))
    done = run_worker(command, job.allocator, budget)
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def at_once(most: int, bytes_each: int = 1) -> int:
    """Return a number of workers, from 1 to `most`, that fit on the device and the processor."""
    import torch

    memory = torch.cuda.get_device_properties(0).total_memory
    return max(1, min(most, len(os.sched_getaffinity(0)) // 2, int(0.9 * memory) // bytes_each))


def device_or_exit() -> None:
    """End the program without an error if PyTorch or a CUDA device is missing."""
    try:
        import torch
    except ImportError:
        print("Nothing measured: PyTorch is not installed.", file=sys.stderr)
        sys.exit(0)
    if not torch.cuda.is_available():
        print("Nothing measured: there is no CUDA device.", file=sys.stderr)
        sys.exit(0)


def describe_device() -> dict[str, Any]:
    """Return the GPU, and the versions of the software that the figures depend on."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    available = torch.backends.cudnn.enabled and torch.backends.cudnn.is_available()
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if available else None,
        "values_mean_nothing": bool(os.environ.get("PGMO_FAKECUDA")),
    }


def write_gpu_result(
    name: str, result: dict[str, Any], output: Path | None, *, quick: bool = False
) -> Path:
    """Write a result with the device's description, by default to bench/results/gpu."""
    described = {"device": describe_device(), **result}
    return write_result(f"gpu/{name}", described, output, quick=quick)
