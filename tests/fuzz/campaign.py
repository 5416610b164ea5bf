"""Trials of many inputs in processes, whose hangs and crashes are reported as failures."""

import json
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PIECE = 2500
"""Inputs of a process, so that memory leaks do not accumulate over a million inputs."""


@dataclass
class Figures:
    """Figures of the tried inputs.

    Args:
        inputs: number of tried inputs.
        outcomes: number of inputs of each kind that were read, refused, or failed.
        failures: number, kind and error of each failed input.
        slowest: most CPU seconds of an input, and its number.
        memory: most bytes of memory for each byte of a file, and the input's number.
        resident: peak of a process's resident memory, in bytes.
    """

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    memory: tuple[float, int] = (0.0, -1)
    resident: int = 0

    def add(self, found: dict[str, Any]) -> None:
        """Add the figures of a process."""
        self.inputs += sum(found["outcomes"].values())
        self.outcomes.update(found["outcomes"])
        self.failures += found["failures"]
        self.slowest = max(self.slowest, tuple(found["slowest"]))
        self.memory = max(self.memory, tuple(found["memory"]))
        self.resident = max(self.resident, found["resident"])


def attack(
    inputs: int,
    *,
    seed: int = 0,
    first: int = 0,
    workers: int = 2,
    module: str = "tests.fuzz.worker",
    progress: Callable[[Figures], None] = lambda figures: None,
) -> Figures:
    """Try the inputs `first` to `first + inputs - 1` of a seed.

    Args:
        inputs: number of inputs.
        seed: seed of the inputs.
        first: number of the first input.
        workers: number of processes at a time.
        module: module that a process runs.
        progress: called with the figures so far after each piece.
    """
    figures, lock = Figures(), threading.Lock()
    pieces = iter(range(first, first + inputs, _PIECE))

    def work() -> None:
        while True:
            with lock:
                begin = next(pieces, None)
            if begin is None:
                return
            end = min(begin + _PIECE, first + inputs)
            while begin < end:
                found, begin = _process(module, seed, begin, end)
                with lock:
                    figures.add(found)
                    progress(figures)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return figures


def _process(module: str, seed: int, begin: int, end: int) -> tuple[dict[str, Any], int]:
    """Try inputs in a process, and return its figures and the number of the next input."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack("<q", begin))
        file.flush()
        command = [sys.executable, "-m", module, *map(str, (seed, begin, end, 1)), file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found, end
        (at,) = struct.unpack("<q", Path(file.name).read_bytes()[:8])
    error = f"the process ended with {done.returncode}: {done.stderr[-1500:]}"
    # A killed process reports nothing, so earlier inputs are tried again.
    before: dict[str, Any] = {"outcomes": {}, "failures": [], "slowest": (0.0, -1)}
    before |= {"memory": (0.0, -1), "resident": 0}
    if at > begin:
        before, stopped = _process(module, seed, begin, at)
        if stopped != at:
            return before, stopped
    before["failures"].append({"number": at, "kind": "any", "error": error})
    before["outcomes"] = {
        **before["outcomes"],
        "any ended": before["outcomes"].get("any ended", 0) + 1,
    }
    return before, at + 1
