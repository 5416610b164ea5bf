"""Run of an unchanged program of `bench/programs`.

    python _program.py FILE CONTENDER SCRIPT ARGUMENTS...

At the end, `_program.py` writes torch's counters and the allocator's costs to FILE: counts per
optimizer step of the last third, and the CPU time of the whole process.
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
    if contender == "pages":  # `pgmo run` installs pages itself
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
