"""Who works on a problem after the packers, and for how long."""

from collections.abc import Iterator

from pgmo.packing.best_known import BestKnown

EFFORTS: tuple[str, ...] = ("fast", "balanced", "best")
"""What `plan` takes as `effort`."""

_EXACT = 3000  # blocks up to which the branch and bound is worth its time
_LITTLE = 0.001  # a gap that training programs do not notice


def schedule(best: BestKnown, effort: str, time_limit: float) -> Iterator[tuple[str, float]]:
    """Names solvers and the seconds that each may take, until the caller has had enough.

    Args:
        best: what the packers have found; looked at again before each turn.
        effort: one of `EFFORTS`.
        time_limit: seconds for all turns together.

    Yields:
        Names of `pgmo.packing.improver.IMPROVERS` with seconds; what a turn leaves over is for
        the next.

    Example:
        >>> from pgmo.packing.problem import Problem
        >>> list(schedule(BestKnown(Problem([], [], [])), "fast", 5.0))
        []
    """
    if effort == "fast":
        return
    if effort == "balanced" and best.gap <= _LITTLE:
        time_limit /= 5
    if len(best.problem) <= _EXACT:
        yield "search", 0.1 * time_limit
        yield "branch-and-bound", 0.6 * time_limit
    yield "search", time_limit
