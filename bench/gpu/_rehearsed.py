"""Eight steps of a model of `_models.py`: `python _rehearsed.py NAME FILE`.

Runs unchanged on a card and in a rehearsal, and writes what it took to FILE: as torch counts it,
and as the driver does for this process, where the driver tells.
"""

import json
import os
import sys
from pathlib import Path

import torch
from _models import MODELS

STEPS = 8


def of_driver() -> int | None:
    """Bytes of the card that the driver counts for this process; None where it does not tell."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except Exception:  # a library that is not there, or its own kind of error
        return None
    found = [one.usedGpuMemory for one in running if one.pid == os.getpid()]
    return int(found[0]) if found and found[0] else None


def main() -> None:
    name, output = sys.argv[1:]
    free, _ = torch.cuda.mem_get_info()
    step = MODELS[name]("cuda")
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
