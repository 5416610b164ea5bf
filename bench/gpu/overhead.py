"""Time of an allocation, and of a training step, with each allocator.

    python bench/gpu/overhead.py --seconds 60
    python bench/gpu/overhead.py --quick            few repetitions

First, nanoseconds per allocation and free are measured, through the C++ interface and through
`torch.empty`. The allocators are torch's own, a `CUDAPluggableAllocator` over functions that do
nothing, pgmo's pages without a session, and pgmo in replay. Then the step time of a model with
small kernels is measured: without a session, on pages, while recording, and in replay. The results
are medians over all repetitions of all processes, ratios to torch's own allocator, and the pages'
figures per step. torch's allocator takes turns with pgmo in one process.
"""

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _launch import (
    HERE,
    Budget,
    budget_of,
    device_or_exit,
    gpu_parser,
    run_worker,
    write_gpu_result,
)
from support.machine import Seconds, show

MOST_ROUNDS = 5
KINDS = ("pgmo", "pages", "plugin")
GOALS = {("C++, at once", "pgmo"): 0.5, ("step", "pgmo"): 1.0, ("step", "record"): 1.1}
"""Goal: the largest ratio to the time with torch's own allocator."""


def build(folder: str) -> str:
    """Compile allocation_loop.cpp, and return the library's path."""
    import torch

    from pgmo.allocator.build.cuda_headers import cuda_include

    root = Path(torch.__file__).parent
    path = f"{folder}/allocation_loop.so"
    command = [
        *os.environ.get("CXX", "g++").split(),
        *("-std=c++20", "-O2", "-fPIC", "-shared"),
        *(str(HERE / "allocation_loop.cpp"), "-o", path),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *("-isystem", str(root / "include"), "-isystem", str(cuda_include())),
        *(f"-L{root / 'lib'}", "-lc10", "-lc10_cuda"),
    ]
    subprocess.run(command, check=True)
    return path


def measure(
    library: str, budget: Budget, *, quick: bool
) -> tuple[dict[str, dict[str, list[float]]], dict[str, Any], int]:
    """Run all kinds of processes in turns.

    Returns:
        Samples by measurement and allocator, the pages' figures per step, and the number of rounds.
    """
    samples: dict[str, dict[str, list[float]]] = {}
    pages: dict[str, Any] = {}
    taken = 0.0
    rounds = 0
    while rounds < (1 if quick else MOST_ROUNDS) and (rounds == 0 or budget.left > 1.3 * taken):
        before = budget.left
        for kind in KINDS if rounds % 2 == 0 else reversed(KINDS):
            command = [str(HERE / "_overhead_worker.py"), kind, library, *["quick"] * quick]
            done = run_worker(command, "default", budget)
            found = json.loads(done.stdout.splitlines()[-1])
            pages = found.get("pages", pages)
            for what, by_allocator in found["samples"].items():
                for who, values in by_allocator.items():
                    samples.setdefault(what, {}).setdefault(who, []).extend(values)
        rounds += 1
        taken = before - budget.left
    return samples, pages, rounds


def summarise(samples: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    rows = []
    for what, by_allocator in samples.items():
        summaries = {who: Seconds.of(values) for who, values in by_allocator.items()}
        for who, one in summaries.items():
            ratio = one.median / summaries["default"].median
            unit = "seconds" if what == "step" else "nanoseconds"
            goal = GOALS.get((what, who))
            rows.append(
                {
                    "what": what,
                    "allocator": who,
                    "unit": unit,
                    **asdict(one),
                    "against_default": ratio,
                    "goal": goal,
                    "reached": None if goal is None else ratio <= goal,
                }
            )
    return rows


def main() -> None:
    parser = gpu_parser(__doc__, 180)
    arguments = parser.parse_args()
    device_or_exit()
    with TemporaryDirectory() as folder:
        library = build(folder)
        samples, pages, rounds = measure(library, budget_of(arguments), quick=arguments.quick)
    rows = summarise(samples)
    for row in rows:
        show(row)
    result = {"processes": rounds, "rows": rows, "pages_per_step": pages}
    write_gpu_result("overhead", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
