"""Many inputs, in processes that may hang or be killed by what they try: that is found and told."""

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
"""Inputs of one process, so that a million ends in time also where memory is lost."""


@dataclass
class Figures:
    """What became of the inputs.

    Args:
        inputs: how many were tried.
        outcomes: how many of each kind were read, refused, or failed.
        failures: number, kind and error of each that must not be.
        slowest: seconds of the processor for one input, and its number.
        memory: most bytes of memory for one of a file, beyond what any may take, and its number.
        resident: most bytes of memory of a process.
    """

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    memory: tuple[float, int] = (0.0, -1)
    resident: int = 0

    def add(self, told: dict[str, Any]) -> None:
        """Adds what a process told."""
        self.inputs += sum(told["outcomes"].values())
        self.outcomes.update(told["outcomes"])
        self.failures += told["failures"]
        self.slowest = max(self.slowest, tuple(told["slowest"]))
        self.memory = max(self.memory, tuple(told["memory"]))
        self.resident = max(self.resident, told["resident"])


def attack(
    inputs: int,
    *,
    seed: int = 0,
    first: int = 0,
    workers: int = 2,
    module: str = "tests.fuzz.worker",
    progress: Callable[[Figures], None] = lambda figures: None,
) -> Figures:
    """Tries inputs `first` to `first + inputs` of a seed.

    Args:
        inputs: how many.
        seed: of the inputs.
        first: the number of the first one.
        workers: processes at a time.
        module: what a process runs.
        progress: called after each piece.
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
                told, begin = _process(module, seed, begin, end)
                with lock:
                    figures.add(told)
                    progress(figures)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return figures


def _process(module: str, seed: int, begin: int, end: int) -> tuple[dict[str, Any], int]:
    """Has a process try inputs; what it told, and the next one that is to be tried."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack("<q", begin))
        file.flush()
        command = [sys.executable, "-m", module, *map(str, (seed, begin, end, 1)), file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return told, end
        (at,) = struct.unpack("<q", Path(file.name).read_bytes()[:8])
    error = f"the process ended with {done.returncode}: {done.stderr[-1500:]}"
    # Those before it are tried again: a process that was killed tells nothing of them.
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
