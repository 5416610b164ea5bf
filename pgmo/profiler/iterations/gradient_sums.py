"""Removal of the requests for gradient sums that tagging adds to an iteration."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import is_among
from pgmo.profiler.recording import Iteration
from pgmo.profiler.tag import Tag


def summed_in_place(
    iteration: Iteration, tags: Sequence[Tag]
) -> tuple[Iteration, NDArray[np.bool_]]:
    """Return a tagged iteration as it would have been without tagging.

    Autograd adds two gradients in place. While a dispatch mode is active, it allocates their sum.

    Returns:
        The iteration, in which each summand lives as long as its sum. And a mask of the requests
        for sums, which programs without tagging do not make, shape (n,).

    Example:
        >>> from pgmo.profiler.recording import make_events, split
        >>> rows = [("request", 8), ("request", 8), ("request", 8), ("free", 0), ("free", 1)]
        >>> (iteration,) = split(make_events([*rows, ("request", 4), ("free", 2), ("step",)]))
        >>> sums = (Tag("Net", "aten.add_", "backward"),)
        >>> iteration.tag[2] = 0
        >>> iteration, summed = summed_in_place(iteration, sums)
        >>> iteration.gone.tolist(), summed.tolist()
        ([4, 3, 4, -1], [False, False, True, False])
    """
    summed, gone = np.zeros(len(iteration), np.bool_), iteration.gone.copy()
    dying: dict[int, list[int]] = defaultdict(list)  # Rows, keyed by when they are freed.
    for row, end in enumerate(gone.tolist()):
        dying[end].append(row)
    adds = [at for at, tag in enumerate(tags) if tag.op == "aten.add_" and tag.phase == "backward"]
    for row in np.flatnonzero(is_among(iteration.tag, adds)).tolist():
        at_once = dying[iteration.first + row + 1]  # Freed before the next request.
        size = iteration.size[row]
        summands = [one for one in at_once if one < row and iteration.size[one] == size]
        if summands:
            oldest, end = min(summands), int(gone[row])  # The oldest is the accumulator.
            gone[oldest] = end
            at_once.remove(oldest)
            dying[end].append(oldest)
            summed[row] = True
    return replace(iteration, gone=gone), summed
