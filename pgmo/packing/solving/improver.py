"""Solvers that improve a given packing until a deadline."""

import numpy as np

from pgmo import _core
from pgmo.packing.solving.best_known import BestKnown

IMPROVERS: tuple[str, ...] = ("search", "branch-and-bound", "cp-sat")
"""Names of the solvers that `improve` knows.

- `search`: repeats best fit in varied orders of the blocks, and moves single blocks;
- `branch-and-bound`: exact search for packings within a capacity, with proof;
- `cp-sat`: OR-Tools' constraint solver, with proof; an optional dependency.
"""

_FOREVER = 1e9  # Maximum time limit in seconds, so that native clocks can represent it.


def improve(best: BestKnown, solver: str, *, time_limit: float, threads: int, seed: int) -> bool:
    """Improve a packing by one of `IMPROVERS` if possible; return whether Ctrl-C was pressed."""
    if best.offset is None:
        raise ValueError("there is no packing to improve; offer one first")
    if best.optimal or time_limit <= 0:
        return False
    start = best.seconds
    limit = min(time_limit, _FOREVER)
    problem = best.problem

    def note(seconds: float, arena: int, bound: int) -> None:
        best.note(arena, bound, solver, start + seconds)

    if solver == "cp-sat":
        from pgmo.packing.solving import cp_sat

        answer = cp_sat.solve(
            problem,
            best.offset,
            best.bound,
            time_limit=limit,
            threads=threads,
            seed=seed,
            report=note,
        )
        offset, bound, interrupted = answer.offset, answer.bound, answer.interrupted
    else:
        offset, bound, interrupted = _core.solve(
            solver,
            *problem.native,
            best.offset,
            best.bound,
            limit,
            threads,
            seed,
            note,
        )
    best.offer(np.asarray(offset, np.int64), solver)
    best.prove(int(bound), solver)
    return bool(interrupted)
