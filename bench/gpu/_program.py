"""Runs a program of `bench/programs` unchanged: `python _program.py FILE SCRIPT ARGUMENTS...`.

At its end what torch counted is written to FILE.
"""

import json
import runpy
import sys
import time
from pathlib import Path

import torch


def main() -> None:
    output, script, *_ = sys.argv[1:]
    del sys.argv[:2]
    began = time.monotonic()
    runpy.run_path(script, run_name="__main__")
    torch.cuda.synchronize()
    found = {
        "seconds": time.monotonic() - began,
        "live": torch.cuda.memory_stats()["requested_bytes.all.peak"],
        "reserved": torch.cuda.max_memory_reserved(),
    }
    Path(output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
