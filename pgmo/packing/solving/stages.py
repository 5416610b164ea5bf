"""Who works on a problem after the packers, and for how long.

Measured on two cores, 3 to 5 seconds, medians over 5 to 7 problems of each size (`bench/packing.py`
and problems made like its own):

- Where some packing reaches the lower bound, the branch and bound finds it first: most cut-up
  arenas of up to 300 blocks and MiniMalloc's benchmarks in milliseconds to seconds, CP-SAT in ten
  times that or not at all from 60 blocks on.
- Where none does, which is to be expected on circles with few, long lifetimes, the branch and
  bound proves hardly anything from 20 blocks on. There CP-SAT solved 6 of 7 problems of 20 blocks
  and 4 of 7 of 40, most of them in 0.02 s; at 80 blocks its bounds were still the better ones, at
  160 neither the bounds nor the arenas were.
- From about 1,000 blocks on the search comes closer than the branch and bound.

So the branch and bound has the first word below that, and CP-SAT the second where it is installed
and the problem has at most 100 blocks.
"""

from collections.abc import Iterator

from pgmo.packing.solving.best_known import BestKnown

EFFORTS: tuple[str, ...] = ("fast", "balanced", "best")
"""What `plan` takes as `effort`."""

CP_SAT_BLOCKS = 100
"""Blocks up to which CP-SAT proves what the branch and bound does not."""

_EXACT_BLOCKS = 1000  # up to which the branch and bound comes closer than the search
_TOO_MANY = 5000  # blocks, at which it needs seconds to begin with
_LITTLE = 1e-6  # a gap that no program notices: some kilobytes of a card
_MOMENT = 0.01  # share of the time in which the search does what it can do at once


def schedule(best: BestKnown, effort: str, time_limit: float) -> Iterator[tuple[str, float]]:
    """Names solvers and the seconds that each may take, until the caller has had enough.

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
    from pgmo.packing.solving import cp_sat

    if effort == "balanced" and best.gap <= _LITTLE:
        time_limit /= 5
    blocks = len(best.problem)
    if blocks > _TOO_MANY:
        turns = [("search", 1.0)]
    elif blocks > _EXACT_BLOCKS:
        turns = [("search", 0.7), ("branch-and-bound", 0.1), ("search", 0.2)]
    elif blocks <= CP_SAT_BLOCKS and cp_sat.suits(best.problem):
        turns = [("search", _MOMENT), ("branch-and-bound", 0.25), ("cp-sat", 0.6), ("search", 0.2)]
    else:
        turns = [("search", _MOMENT), ("branch-and-bound", 0.85), ("search", 0.15)]
    end = best.seconds + time_limit
    for place, (solver, share) in enumerate(turns):
        last = place == len(turns) - 1
        yield solver, end - best.seconds if last else share * time_limit
