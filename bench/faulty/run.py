"""Run one program, and save a snapshot of its memory unless it is fixed.

python -m faulty.run NAME FOLDER [fixed]
"""

import json
import sys
from pathlib import Path

import torch

from faulty import load


def main(name: str, folder: str, *fixed: str) -> None:
    """Run a program, and print its peak of allocated or reserved bytes."""
    torch.manual_seed(0)
    program = load()[name]
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    kept = program.run(bool(fixed))
    if not fixed:
        torch.cuda.memory._dump_snapshot(str(Path(folder, f"{name}.pickle")))
    del kept
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    print(json.dumps(reserved if program.reserved else allocated))


if __name__ == "__main__":
    main(*sys.argv[1:])
