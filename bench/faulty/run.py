"""Runs one program, and saves a snapshot of its memory.

python -m faulty.run NAME FOLDER [mended]
"""

import json
import sys
from pathlib import Path

import torch

from faulty import load


def main(name: str, folder: str, *mended: str) -> None:
    """Train, and print the peak of allocated or reserved bytes."""
    torch.manual_seed(0)
    program = load()[name]
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    kept = program.run(bool(mended))
    if not mended:
        torch.cuda.memory._dump_snapshot(str(Path(folder, f"{name}.pickle")))
    del kept
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    print(json.dumps(reserved if program.reserved else allocated))


if __name__ == "__main__":
    main(*sys.argv[1:])
