"""Worker with faults that must be noticed: it raises, hangs, crashes, or takes too much memory."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from tests.fuzz import trial, worker
from tests.fuzz.inputs import Input

RAISES, HANGS, ENDS, EATS = 3, 5, 7, 16


def _run(self: trial.Trial, given: Input) -> str:
    del self
    if given.number == RAISES:
        raise OverflowError("planted")
    if given.number == HANGS:
        signal.alarm(1)  # 1 s instead of minutes
        time.sleep(600)
    if given.number == ENDS:
        os.kill(os.getpid(), signal.SIGSEGV)
    if given.number == EATS:
        bytearray(worker.FLOOR + (worker.RATIO + 1) * len(given.data))
    return "read"


if __name__ == "__main__":
    trial.Trial.run = _run
    worker._warm = lambda trial: None
    seed, first, stop, step = map(int, sys.argv[1:5])
    print(json.dumps(worker.work(seed, range(first, stop, step), Path(sys.argv[5]))))
