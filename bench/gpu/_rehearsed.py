"""Eight steps of a model of `_models.py`: `python _rehearsed.py NAME FILE`.

The script runs unchanged on a card and in a rehearsal. It writes bytes of memory to FILE: torch's
counters, and the driver's count for the process, if the driver reports one.
"""

import json
import os
import sys
from pathlib import Path

import torch
from _models import MODELS

STEPS = 8


def of_driver() -> int | None:
    """Return the card's bytes that the driver counts for this process; None if unknown."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except Exception:  # the library is missing, or raises an error of its own type
        return None
    found = [one.usedGpuMemory for one in running if one.pid == os.getpid()]
    return int(found[0]) if found and found[0] else None


def main() -> None:
    name, output = sys.argv[1:]
    free, _ = torch.cuda.mem_get_info()
    step = MODELS[name]()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    left, _ = torch.cuda.mem_get_info()
    found = {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "reserved_at_end": torch.cuda.memory_reserved(),
        "driver": of_driver(),
        "taken_since_context": free - left,
    }
    Path(output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
