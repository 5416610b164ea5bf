"""Time of a request and its free in the engine.

    python bench/engine.py                    writes bench/results/engine.json
    python bench/engine.py --repetitions 5    fewer repetitions
    python bench/engine.py --quick            short sequences, once

The script builds bench/engine_bench.cpp, which calls the engine through its C interface with
sequences of requests shaped like training steps. A *pair* is one request and one free. Times are
CPU times of a single thread. The driving loop is part of every figure; the row `empty` is the loop
alone. In the rows `paged`, a device with pages serves slots whose pages are mapped. The driver
calls of this device take no time.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.machine import Seconds, add_common_options, write_result

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = (1_000, 10_000, 100_000, 1_000_000)
QUICK_BLOCKS = (100, 1_000)
PAIRS, QUICK_PAIRS = 1_000_000, 10_000
"""Pairs of a repetition."""
LARGE = ((1_000, 64 << 20), (100, 1 << 30))
"""Number of large blocks, and the bytes of each. Their sum fits on a card."""
MOST_NANOSECONDS = 60.0
MOST_RECORDING_NANOSECONDS = 100.0
MOST_GROWTH = 1.5
MOST_FOR_PAGES = 1.1

Key = tuple[str, int, int]
"""Kind of pair, number of blocks, and bytes of each block; 0 bytes: sizes like a network's."""


def build_driver(folder: Path, *, quick: bool) -> Path:
    """Compile the driver: with -O3, or as one file with -O0 if `quick`."""
    driver = folder / "engine_bench"
    folders = (ROOT / "csrc" / "engine", ROOT / "csrc" / "pages")
    sources = [str(path) for folder in folders for path in sorted(folder.rglob("*.cpp"))]
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    flags = ["-std=c++20", "-O0" if quick else "-O3", "-pthread", f"-I{ROOT / 'csrc'}"]
    sources.append(str(ROOT / "bench" / "engine_bench.cpp"))
    if quick:  # most of the time is spent on headers
        whole = folder / "whole.cpp"
        whole.write_text("".join(f'#include "{source}"\n' for source in sources))
        sources = [str(whole)]
    subprocess.run([compiler, *flags, *sources, "-o", str(driver)], check=True)
    return driver


def measure(
    driver: Path, blocks: Sequence[int], repetitions: int, pairs: int
) -> dict[Key, Seconds]:
    """Run all kinds of pairs in turns, in one process; return seconds per pair."""
    names = [f"{what}:{count}" for count in blocks for what in ("replay", "paged", "empty")]
    names.append(f"record:{blocks[-2]}")
    for count, size in LARGE:
        names += [f"{what}:{count}:{size}" for what in ("replay", "paged")]
    output = subprocess.run(
        [driver, str(repetitions), str(pairs), *names], check=True, capture_output=True, text=True
    ).stdout
    samples = defaultdict(list)
    for line in output.splitlines():
        what, count, size, nanoseconds = line.split()
        samples[what, int(count), int(size)].append(1e-9 * float(nanoseconds))
    return {key: Seconds.of(values) for key, values in samples.items()}


def summary(pairs: dict[Key, Seconds], blocks: Sequence[int]) -> dict[str, Any]:
    """Return claims, each with figure, limit and whether it holds."""
    nanoseconds = {key: 1e9 * seconds.median for key, seconds in pairs.items()}
    replay = {count: nanoseconds["replay", count, 0] for count in blocks}
    # Without recording, the engine does nothing for a block of the adapter. So the difference to
    # the loop alone is the time of recording.
    usual = blocks[-2]
    added = nanoseconds["record", usual, 0] - nanoseconds["empty", usual, 0]
    growth = max(replay.values()) / replay[blocks[0]]
    paged = {key[1:]: pairs[key].median for key in pairs if key[0] == "paged"}
    over = {key: seconds / pairs["replay", *key].median for key, seconds in paged.items()}
    return {
        "replay_pair_ns": claim(replay[usual], MOST_NANOSECONDS),
        "recording_adds_ns": claim(added, MOST_RECORDING_NANOSECONDS),
        "growth_from_fewest_blocks": claim(growth, MOST_GROWTH),
        "with_pages_over_without": claim(max(over.values()), MOST_FOR_PAGES),
    }


def claim(figure: float, limit: float) -> dict[str, float | bool]:
    return {"figure": round(figure, 2), "at_most": limit, "holds": figure <= limit}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=9, help="of each measurement (9)")
    add_common_options(parser)
    arguments = parser.parse_args()
    quick = arguments.quick
    repetitions = 1 if quick else arguments.repetitions
    counts = QUICK_BLOCKS if quick else BLOCKS
    with tempfile.TemporaryDirectory() as folder:
        driver = build_driver(Path(folder), quick=quick)
        pairs = measure(driver, counts, repetitions, QUICK_PAIRS if quick else PAIRS)
    result: dict[str, Any] = {
        "repetitions": repetitions,
        "claims": summary(pairs, counts),
        "pairs": [
            {
                "what": what,
                "blocks": count,
                "bytes": size,
                "median_ns": round(1e9 * seconds.median, 2),
                "fastest_ns": round(1e9 * seconds.fastest, 2),
                "slowest_ns": round(1e9 * seconds.slowest, 2),
            }
            for (what, count, size), seconds in sorted(pairs.items())
        ],
    }
    for row in result["pairs"]:
        each = f" of {row['bytes'] >> 20:,} MiB" if row["bytes"] else ""
        blocks = f"{row['blocks']:,} blocks{each}"
        print(f"{row['what']:>7} {blocks:>24} {row['median_ns']:8.1f} ns a pair")
    for name, figures in result["claims"].items():
        print(f"{name}: {figures}")
    write_result("engine", result, arguments.output, quick=quick)


if __name__ == "__main__":
    main()
