"""What the model of plain PyTorch costs for each request, next to glibc's malloc in the same run.

    python bench/baseline.py           writes bench/results/baseline.json
    python bench/baseline.py --quick   to see that it works

Builds bench/baseline_bench.cpp, which drives the model through its C table. A *call* is a request
or a free; half of the blocks of an iteration are freed at once, the others in reverse at its end.
Times are the processor time of the thread, in nanoseconds per call; of the repetitions the fastest
counts, as other programs on the machine only add to it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _machine import add_common_options, write_result

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = (100, 1_000, 10_000, 100_000)
PAIRS, QUICK_PAIRS = 1_000_000, 1_000
MOST_NANOSECONDS = 40.0
"""Nanoseconds per call up to `MOST_BLOCKS`; above, blocks do not fit the processor's caches."""
MOST_BLOCKS = 1_000


def build_driver(folder: Path, *, quick: bool) -> Path:
    """Compile the driver with the flags of the native module."""
    driver = folder / "baseline_bench"
    sources = [str(path) for path in sorted((ROOT / "csrc/baseline").glob("*.cpp"))]
    sources.append(str(ROOT / "bench/baseline_bench.cpp"))
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    flags = ["-std=c++20", "-O0" if quick else "-O3", "-pthread", f"-I{ROOT / 'csrc'}"]
    subprocess.run([compiler, *flags, *sources, "-o", str(driver)], check=True)
    return driver


def measure(driver: Path, repetitions: int, pairs: int) -> list[dict[str, Any]]:
    """One row for each number of blocks: the fastest of the repetitions, per call."""
    best: dict[tuple[str, int], float] = {}
    for _ in range(repetitions):
        command = [str(driver), str(pairs), *map(str, BLOCKS)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            what, blocks, pair = line.split()
            key = what, int(blocks)
            best[key] = min(best.get(key, float("inf")), float(pair) / 2)
    return [
        {
            "blocks": blocks,
            "model_ns": best["model", blocks],
            "malloc_ns": best["malloc", blocks],
            "ratio": best["model", blocks] / best["malloc", blocks],
        }
        for blocks in BLOCKS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repetitions", type=int, default=9)
    add_common_options(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        driver = build_driver(Path(folder), quick=arguments.quick)
        repetitions = 1 if arguments.quick else arguments.repetitions
        rows = measure(driver, repetitions, QUICK_PAIRS if arguments.quick else PAIRS)
    write_result("baseline", {"rows": rows}, arguments.output, quick=arguments.quick)
    for row in rows:
        print(
            f"{row['blocks']:7} blocks: model {row['model_ns']:6.1f} ns a call, "
            f"malloc {row['malloc_ns']:6.1f}"
        )
    slow = [row for row in rows if row["blocks"] <= MOST_BLOCKS]
    if not arguments.quick and any(row["model_ns"] > MOST_NANOSECONDS for row in slow):
        sys.exit(f"a call takes more than {MOST_NANOSECONDS:g} ns")


if __name__ == "__main__":
    main()
