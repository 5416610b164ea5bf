"""How the time of planning grows with the number of blocks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from _machine import Seconds, repeat
from numpy.typing import NDArray

from packers.traces import FAMILIES
from pgmo.packing.lower_bound import max_load
from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import PACKERS, pack
from pgmo.packing.validator import validate
from pgmo.profiler.profile import Profile

PEER_LIMIT = 20_000  # blocks; the peer's time grows with their square
FAST = 'plan(effort="fast")'
PEER = "peer: greedy by size"


def greedy_by_size(problem: Problem) -> NDArray[np.int64]:
    """Largest first, each into the lowest gap between the placed blocks that it meets in time.

    The planner of PyTorch's Static Runtime and of TensorFlow Lite, in numpy.
    """
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


def measure_growth(sizes: list[int], repetitions: int) -> Iterator[dict[str, Any]]:
    """Yields a row for each family, number of blocks and packer."""
    for blocks in sizes:
        for family in FAMILIES:
            yield from _measure(family, blocks, repetitions)


def _measure(family: str, blocks: int, repetitions: int) -> Iterator[dict[str, Any]]:
    trace = FAMILIES[family](blocks, 0)
    profile = Profile.from_columns(
        size=trace.size, start=trace.start, end=trace.end, ticks=trace.ticks
    )
    problem, _ = Problem.from_profile(profile, 64)
    aligned = -(-problem.size // 64) * 64
    bound = max_load(problem)

    def row(packer: str, seconds: Seconds, arena: int) -> dict[str, Any]:
        gap = arena / bound - 1
        print(
            f"{family:14} {len(problem):8} {packer:24} {seconds.median:9.4f} s   "
            f"gap {100 * gap:7.4f} %",
            flush=True,
        )
        return {
            "family": family,
            "blocks": len(problem),
            "wrapping": int((problem.upper > problem.period).sum()),
            "packer": packer,
            "seconds": seconds.median,
            "seconds_range": [seconds.fastest, seconds.slowest],
            "repetitions": seconds.repetitions,
            "gap": gap,
        }

    for packer in PACKERS:
        offset = pack(problem, packer)
        seconds = repeat(lambda packer=packer: pack(problem, packer), repetitions)
        yield row(packer, seconds, int((offset + aligned).max()))
    plans = []
    seconds = repeat(lambda: plans.append(plan(profile, effort="fast")), repetitions)
    yield row(FAST, seconds, plans[0].arena)
    yield row("validate()", repeat(lambda: validate(plans[0]), 1), plans[0].arena)
    if len(problem) <= PEER_LIMIT:
        offset = greedy_by_size(problem)
        seconds = repeat(lambda: greedy_by_size(problem), repetitions)
        yield row(PEER, seconds, int((offset + aligned).max()))
