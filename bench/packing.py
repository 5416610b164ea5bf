"""How fast the packers are and how close they come to the lower bound.

    python bench/packing.py                         all sizes; about ten minutes
    python bench/packing.py --blocks 1000 10000     a quick look

Generated circular traces (`_traces.py`) from 10^3 to 10^6 blocks: each packer, the portfolio that
stops at the lower bound and the one that runs every packer; and, in the same run, plain greedy by
size in Python with numpy, the planner of PyTorch's Static Runtime and of TensorFlow Lite, where it
is feasible. `gap` is arena / bound - 1; the bound counts a block that outlives a period as two.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _machine import Seconds, repeat, write_result
from _traces import FAMILIES
from numpy.typing import NDArray

from pgmo.packing.lower_bound import max_load
from pgmo.packing.packer import PACKERS
from pgmo.packing.portfolio import plan, search
from pgmo.packing.problem import Problem
from pgmo.packing.validator import validate
from pgmo.profiler.profile import Profile

SCATTERED_LIMIT = 200_000  # blocks at random take the first-fit packers minutes beyond it
PEER_LIMIT = 20_000  # blocks; the peer's time grows with their square


def greedy_by_size(problem: Problem) -> NDArray[np.int64]:
    """Largest first, each into the lowest gap between the placed blocks that it meets in time."""
    size = -(-problem.size // problem.alignment) * problem.alignment
    lower, upper, period = problem.lower, problem.upper, problem.period
    n = len(problem)
    order = np.argsort(-size, kind="stable")
    offset = np.zeros(n, np.int64)
    for k, i in enumerate(order.tolist()):
        placed = order[:k]
        low, high = lower[placed], upper[placed]
        meets = (low < upper[i]) & (lower[i] < high)
        if period:
            meets |= (low + period < upper[i]) | (lower[i] + period < high)
        rivals = placed[meets]
        rivals = rivals[np.argsort(offset[rivals], kind="stable")]
        begin, end = offset[rivals], offset[rivals] + size[rivals]
        floor = np.concatenate([[0], np.maximum.accumulate(end)])
        fits = np.flatnonzero(begin - floor[:-1] >= size[i])
        offset[i] = floor[fits[0]] if len(fits) else floor[-1]
    return offset


def measure(family: str, blocks: int, repetitions: int) -> list[dict[str, Any]]:
    trace = FAMILIES[family](blocks, 0)
    profile = Profile.from_columns(
        size=trace.size, start=trace.start, end=trace.end, ticks=trace.ticks
    )
    problem, _ = Problem.from_profile(profile, 64)
    aligned = -(-problem.size // 64) * 64
    bound = max_load(problem)
    rows: list[dict[str, Any]] = []

    def note(packer: str, seconds: Seconds, arena: int) -> None:
        rows.append(
            {
                "family": family,
                "blocks": len(problem),
                "wrapping": int((problem.upper > problem.period).sum()),
                "packer": packer,
                "seconds": seconds.median,
                "seconds_range": [seconds.fastest, seconds.slowest],
                "repetitions": seconds.repetitions,
                "gap": arena / bound - 1,
            }
        )
        print(
            f"{family:14} {len(problem):8} {packer:24} {seconds.median:9.4f} s"
            f"   gap {100 * rows[-1]['gap']:7.4f} %",
            flush=True,
        )

    runs = []
    complete = repeat(lambda: runs.append(search(problem, early_stop=False)), repetitions)
    for packer, attempts in zip(
        PACKERS, zip(*(run.attempts for run in runs), strict=True), strict=True
    ):
        seconds = Seconds.of([attempt.seconds for attempt in attempts])
        note(packer, seconds, attempts[0].arena)
    best = runs[0].best.arena
    note("portfolio, every packer", complete, best)
    note("portfolio", repeat(lambda: search(problem), repetitions), best)
    made = plan(profile)
    note("plan(), end to end", repeat(lambda: plan(profile), repetitions), made.arena)
    rows[-1]["gap_to_max_load"] = made.gap
    note("validate()", repeat(lambda: validate(made), repetitions), made.arena)
    if len(problem) <= PEER_LIMIT:
        offset = greedy_by_size(problem)
        seconds = repeat(lambda: greedy_by_size(problem), repetitions)
        note("peer: greedy by size", seconds, int((offset + aligned).max()))
        for row in rows:
            row["peer_seconds_ratio"] = seconds.median / row["seconds"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, nargs="+", default=[10**k for k in (3, 4, 5, 6)])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--output", type=Path, help="default: bench/results/packing.json")
    args = parser.parse_args()
    rows = [
        row
        for blocks in args.blocks
        for family in args.families
        if family != "scattered" or blocks <= SCATTERED_LIMIT
        for row in measure(family, blocks, args.repetitions)
    ]
    write_result("packing", {"alignment": 64, "rows": rows}, args.output)


if __name__ == "__main__":
    main()
