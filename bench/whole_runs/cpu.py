"""Run of one program on the CPU, in its own process: its results and its peak."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import PROGRAMS, script
from workloads.launch import PATHS, WorkerError

_LAST_LINES = 12


@dataclass(frozen=True)
class Run:
    """Figures of one process.

    Args:
        peak: peak of resident bytes, over the whole process.
        result: results of the program: losses, and a digest of all weights.
        seconds: wall-clock seconds of the process.
        cpu_seconds: CPU seconds of the process, in user and system mode.
        counted: the JSON report of `pgmo run`; empty without pgmo.
    """

    peak: int
    result: dict[str, Any]
    seconds: float
    cpu_seconds: float
    counted: dict[str, Any]


def run(name: str, steps: int, *, small: bool, ours: bool) -> Run:
    """Run a program by `python`, or by `pgmo run` if `ours`.

    Raises:
        WorkerError: if the program fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, counted = Path(folder) / "result.json", Path(folder) / "counted.json"
        front = ["-m", "pgmo", "run", "--json", str(counted), *PROGRAMS[name].options]
        own = [str(script(name)), "--steps", str(steps), "--result", str(result)]
        command = [sys.executable, *(front if ours else []), *own, *(["--small"] if small else [])]
        began = time.monotonic()
        used, status, said = _watched(command, environment())
        seconds = time.monotonic() - began
        if status or not result.exists():
            raise WorkerError(f"{name} ended with status {status}:\n{said}")
        found = json.loads(counted.read_text("utf-8")) if ours else {}
        computed = json.loads(result.read_text("utf-8"))
        cpu_seconds = used.ru_utime + used.ru_stime
        return Run(used.ru_maxrss * 1024, computed, seconds, cpu_seconds, found)


def _watched(
    command: list[str], settings: Mapping[str, str]
) -> tuple[resource.struct_rusage, int, str]:
    """Run a command; return its resource usage, its status, and its last lines."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=settings)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().decode(errors="replace").splitlines()
    return used, process.returncode, "\n".join(lines[-_LAST_LINES:])


def environment() -> dict[str, str]:
    """Return the environment: one thread, so that sums have one order, no network and no card.

    Python may write bytecode, as for installed packages: compiling modules in each run takes one or
    two MiB.
    """
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": PATHS,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def from_slots(counted: Mapping[str, Any]) -> tuple[float, int]:
    """Return the share of a run's bytes that came from slots, and the number of iterations.

    Iterations that a session did not count get the mean bytes of those that it counted.
    """
    hit = asked = iterations = 0.0
    for session in counted["sessions"]:
        summary = session["summary"]
        seen = summary["iterations"] - summary["uncounted"]
        hit += summary["run_bytes_hit"]
        asked += summary["run_bytes"] * (summary["iterations"] / seen if seen else 1)
        iterations += summary["iterations"]
    return (hit / asked if asked else 0.0), int(iterations)
