"""The process that tries inputs, one after the other; who started it watches it end.

What must not be is left to the system, which needs no cooperation of a process that hangs in C: an
alarm kills it when one input takes minutes, and its address space is limited.
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
"""Seconds of one input, which takes milliseconds, on however busy a machine."""

MEASURED = 16
"""Of so many inputs one is measured, which takes several times as long; and all that are large."""

FLOOR = 8 * 2**20
RATIO = 160
"""Bytes of memory that an input may take at once, and more for each of its own."""

_MOST_MEMORY = 2**30
_LARGE = 16_000


def work(seed: int, numbers: range, progress: Path) -> dict[str, Any]:
    """Tries inputs.

    Args:
        seed: of the inputs.
        numbers: which ones.
        progress: file that always has the number of the input that is being tried.

    Returns:
        Figures, for `json`.
    """
    from tests.fuzz.trial import Trial

    outcomes: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    slowest, highest = (0.0, -1), (0.0, -1)
    # In memory, where there is such a folder: everything that is written is waited for.
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=shared) as folder,
        open(progress, "r+b", buffering=0) as told,
    ):
        trial = Trial(Path(folder))
        signal.alarm(HANGS_AFTER)
        _warm(trial)
        _limit_memory()
        for number in numbers:
            told.seek(0)
            told.write(struct.pack("<q", number))
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
    """The outcome of an input, and the memory that it took, where it was measured."""
    if given.number % MEASURED and len(given.data) < _LARGE:
        return trial.run(given), 0
    tracemalloc.start()
    try:
        return trial.run(given), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _warm(trial: Any) -> None:
    """Has everything imported, which is no input's memory."""
    for number in range(200):
        try:
            trial.run(make_input(-1, number))
        except Exception:
            continue  # said of the input that is counted


def _limit_memory() -> None:
    """What takes a gigabyte more than the program does not get it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    seed, first, stop, step = map(int, sys.argv[1:5])
    print(json.dumps(work(seed, range(first, stop, step), Path(sys.argv[5]))))
