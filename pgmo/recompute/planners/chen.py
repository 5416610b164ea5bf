"""Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174).

The forward pass is cut into segments at articulation points. All paths from the ancestors of an
articulation point to later operations pass through the point. Only the values of the cuts are kept.
In a chain of n equal operations, sqrt(n) segments minimize the sum of kept values and one segment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pgmo.recompute.planners.lower_sets import Dag


@dataclass(frozen=True)
class Segments:
    """Segments of the forward pass.

    Args:
        cuts: operations whose values are kept, ascending.
        kept: bytes of the kept values.
        largest: bytes of the largest segment with its cut.
        operations: number of all operations.
        last: first operation after the last cut; 0 without cuts.
    """

    cuts: tuple[int, ...]
    kept: int
    largest: int
    operations: int
    last: int

    def dropped(self, *, last: bool = True) -> frozenset[int]:
        """Return the operations that are not cuts, with the last segment only if `last`."""
        end = self.operations if last else self.last
        return frozenset(range(end)) - frozenset(self.cuts)


def articulation_points(dag: Dag) -> tuple[int, ...]:
    """Return the articulation points, ascending.

    Example:
        >>> diamond = Dag(((), (0,), (0,), (1, 2), (3,)), np.ones(5, np.int64), np.ones(5))
        >>> articulation_points(diamond)
        (0, 3)
    """
    edge = dag.boundary(dag.ancestors)
    return tuple(np.flatnonzero((edge.sum(axis=1) == 1) & edge.diagonal()).tolist())


def cut(dag: Dag, limit: float, points: Sequence[int]) -> Segments:
    """Cut at each of `points` where a segment exceeds `limit` bytes (algorithm 3 of the paper)."""
    ancestors = dag.ancestors
    cuts: list[int] = []
    done = np.zeros(len(dag), np.bool_)
    kept = largest = 0
    for point in points:
        if cuts and not ancestors[point, cuts[-1]]:
            continue  # The point is on another branch than the last cut.
        size = int(dag.size[ancestors[point] & ~done].sum())
        if size > limit:
            cuts.append(point)
            done = ancestors[point]
            kept += int(dag.size[point])
            largest = max(largest, size)
    largest = max(largest, int(dag.size[~done].sum()))
    return Segments(tuple(cuts), kept, largest, len(dag), cuts[-1] + 1 if cuts else 0)


def sweep(dag: Dag, count: int = 16) -> Iterator[Segments]:
    """Yield distinct segmentations: first the paper's, then others from fine to coarse.

    The paper's limit is the geometric mean of two sizes in the finest segmentation: the kept bytes
    and the largest segment. `count` is the number of further limits.

    Example:
        >>> reads = ((), *((i,) for i in range(99)))
        >>> len(next(sweep(Dag(reads, np.full(100, 8), np.ones(100)))).cuts)
        9
    """
    seen: set[tuple[int, ...]] = set()
    points = articulation_points(dag)
    finest = cut(dag, 0, points)
    least = max(1.0, finest.largest / 4)
    limits = np.geomspace(least, max(least, float(dag.size.sum())), count)
    for limit in (sqrt(finest.kept * finest.largest), *limits.tolist()):
        segments = cut(dag, limit, points)
        if segments.cuts not in seen:
            seen.add(segments.cuts)
            yield segments
