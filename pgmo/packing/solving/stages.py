"""Choice of the solvers that run after the packers.

Measured on two cores, 3 to 5 seconds, medians over 5 to 7 problems of each size (`bench/packing.py`
and similar problems):

- If a packing reaches the lower bound, branch and bound finds it first. Arenas that were cut into
  up to 300 blocks, and MiniMalloc's benchmarks, mostly take milliseconds to seconds. CP-SAT takes
  ten times as long, or fails from 60 blocks on.
- If no packing reaches the lower bound, as on circles with few, long lifetimes, branch and bound
  proves little from 20 blocks on. CP-SAT solved 6 of 7 problems of 20 blocks and 4 of 7 problems of
  40 blocks, most of them in 0.02 s. At 80 blocks, CP-SAT's bounds were still better; at 160 blocks,
  neither the bounds nor the arenas of CP-SAT were better.
- From about 1,000 blocks on, the search gets closer than branch and bound.

So up to 1,000 blocks, branch and bound runs first, after a moment of search. CP-SAT is next if it
is installed and the problem has at most 100 blocks.
"""

from collections.abc import Iterator

from pgmo.packing.solving.best_known import BestKnown

EFFORTS: tuple[str, ...] = ("fast", "balanced", "best")
"""Values of `effort` that `plan` accepts."""

CP_SAT_BLOCKS = 100
"""Maximum number of blocks for CP-SAT: up to this number, it proves more than branch and bound."""

_EXACT_BLOCKS = 1000  # Up to this number, branch and bound finds smaller arenas than search.
_TOO_MANY = 5000  # Above this number of blocks, branch and bound needs seconds to start.
_LITTLE = 1e-6  # Negligible relative excess over the bound: some kilobytes of a card.
_MOMENT = 0.01  # Share of the time in which the search makes its first improvements.


def schedule(best: BestKnown, effort: str, time_limit: float) -> Iterator[tuple[str, float]]:
    """Yield the solvers to run, in order, and the seconds that each may take.

    Args:
        best: result of the packers.
        effort: "fast" runs no solver; "best" and "balanced" use all of the time. If the arena is
            at most a millionth above the bound, "balanced" uses a fifth.
        time_limit: seconds for all solvers together. The last solver gets the time that earlier
            solvers leave unused.
    """
    if effort == "fast":
        return
    from pgmo.packing.solving import cp_sat

    if effort == "balanced" and best.above_bound <= _LITTLE:
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
