"""Who works on a problem after the packers, and for how long.

Measured on two cores, 5 seconds, with `bench/packing.py`: where some packing reaches the lower
bound, the branch and bound finds it first, MiniMalloc's benchmarks in milliseconds. From about
1,000 blocks on the search comes closer.
"""

from collections.abc import Iterator

from pgmo.packing.solving.best_known import BestKnown

EFFORTS: tuple[str, ...] = ("fast", "balanced", "best")
"""What `plan` takes as `effort`."""

_EXACT_BLOCKS = 1000  # up to which the branch and bound comes closer than the search
_LITTLE = 1e-6  # a gap that no program notices: some kilobytes of a card
_MOMENT = 0.01  # share of the time in which the search does what it can do at once


def schedule(best: BestKnown, effort: str, time_limit: float) -> Iterator[tuple[str, float]]:
    """Name solvers and the seconds that each may take, until the caller has had enough.

    Args:
        best: what the packers have found.
        effort: "fast" has no solver at all; "balanced" takes a fifth of the time where the gap is
            below a millionth; "best" takes it all.
        time_limit: seconds for all turns together.

    Yields:
        Names of `pgmo.packing.solving.improver.IMPROVERS` with seconds. What a turn leaves over is
        for the last one.

    Example:
        >>> from pgmo.packing.problem import Problem
        >>> list(schedule(BestKnown(Problem([], [], [])), "fast", 5.0))
        []
    """
    if effort == "fast":
        return
    if effort == "balanced" and best.gap <= _LITTLE:
        time_limit /= 5
    end = best.seconds + time_limit
    if len(best.problem) <= _EXACT_BLOCKS:
        yield "search", _MOMENT * time_limit
        yield "branch-and-bound", 0.85 * time_limit
    yield "search", end - best.seconds
