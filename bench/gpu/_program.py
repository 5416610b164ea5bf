"""Runs a program of `bench/programs` unchanged.

    python _program.py FILE CONTENDER SCRIPT ARGUMENTS...

At its end what torch counted is written to FILE, and what the allocator costs beside memory: per
step of an optimizer in the last third, and the CPU time of the whole process.
"""

import json
import runpy
import sys
import time
from pathlib import Path

import torch
from workloads.allocators import install_pages
from workloads.costs import costs_of_steps


def main() -> None:
    output, contender, script, *_ = sys.argv[1:]
    del sys.argv[:3]
    if contender == "pages":  # `pgmo run` does it itself
        install_pages(contender)
    costs = costs_of_steps()
    began = time.monotonic()
    runpy.run_path(script, run_name="__main__")
    torch.cuda.synchronize()
    found = {
        "seconds": time.monotonic() - began,
        "live": torch.cuda.memory_stats()["requested_bytes.all.peak"],
        "reserved": torch.cuda.max_memory_reserved(),
        **costs.figures(),
        "cpu_seconds": time.process_time(),
    }
    Path(output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
