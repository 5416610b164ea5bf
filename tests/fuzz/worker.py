"""Process that tries inputs one by one.

The system ends a process that hangs in C or takes too much memory: an alarm kills it if an input
takes minutes, and its address space is limited.
"""

import json
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.inputs import Input, make_input

HANGS_AFTER = 300
"""Most seconds of an input, which takes milliseconds on an idle machine."""

MEASURED = 16
"""Memory is measured for one of so many inputs, and for all large ones, as it takes long."""

FLOOR = 24 * 2**20
RATIO = 160
"""Bytes of memory that any input may take, and further bytes for each byte of the file. A small
profile may declare 2**20 ticks, and two arrays of this length take 16 MiB."""

_MOST_MEMORY = 2**30
_LARGE = 16_000


def work(seed: int, numbers: range, progress: Path) -> dict[str, Any]:
    """Try inputs.

    Args:
        seed: seed of the inputs.
        numbers: numbers of the inputs.
        progress: file that holds the number of the current input.

    Returns:
        Fields of `campaign.Figures`, as JSON can represent them.
    """
    from tests.fuzz.trial import Trial

    outcomes: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    slowest, highest = (0.0, -1), (0.0, -1)
    # A folder in memory if possible, as pgmo waits for the disk after each write.
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=shared) as folder,
        open(progress, "r+b", buffering=0) as progress_file,
    ):
        trial = Trial(Path(folder))
        signal.alarm(HANGS_AFTER)
        _warm(trial)
        limit_memory()
        for number in numbers:
            progress_file.seek(0)
            progress_file.write(struct.pack("<q", number))
            signal.alarm(HANGS_AFTER)
            given = make_input(seed, number)
            began = time.process_time()
            try:
                outcome, memory = _try(trial, given)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                outcome, memory = "failed", 0
                shown = "".join(traceback.format_exception(error)[-3:])[-2000:]
                failures.append({"number": number, "kind": given.kind, "error": shown})
            outcomes[f"{given.kind} {outcome}"] += 1
            slowest = max(slowest, (time.process_time() - began, number))
            highest = max(highest, (memory / (FLOOR / RATIO + len(given.data)), number))
            if memory > FLOOR + RATIO * len(given.data):
                what = f"{memory} bytes of memory for {len(given.data)} of the file"
                failures.append({"number": number, "kind": given.kind, "error": what})
    signal.alarm(0)
    return {
        "outcomes": outcomes,
        "failures": failures,
        "slowest": slowest,
        "memory": highest,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _try(trial: Any, given: Input) -> tuple[str, int]:
    """Return the outcome of an input and its peak of memory in bytes, 0 if it is not measured."""
    if given.number % MEASURED and len(given.data) < _LARGE:
        return trial.run(given), 0
    tracemalloc.start()
    try:
        return trial.run(given), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _warm(trial: Any) -> None:
    """Import all modules, whose memory is not that of an input."""
    for number in range(200):
        try:
            trial.run(make_input(-1, number))
        except Exception:
            continue  # the same error of a counted input is reported


def limit_memory() -> None:
    """Limit the address space to 1 GiB more than the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    seed, first, stop, step = map(int, sys.argv[1:5])
    print(json.dumps(work(seed, range(first, stop, step), Path(sys.argv[5]))))
