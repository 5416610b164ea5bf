"""The max load: what no packing of a problem can go below, and which heights packings have."""

import numpy as np

from pgmo import _core
from pgmo.packing.problem import Problem


def max_load(problem: Problem) -> int:
    """The largest sum of aligned sizes alive at one tick, in bytes.

    No arena can be smaller, because the blocks alive at that tick share no byte. O(n log n).

    Args:
        problem: the blocks.

    Returns:
        Bytes; 0 for an empty problem.

    Example:
        >>> max_load(Problem([64, 32, 16], [0, 1, 2], [2, 3, 4], period=4))
        96
        >>> max_load(Problem([64, 32], [0, 1], [1, 3], period=2))
        96
    """
    return int(_core.max_load(*problem.native))


_MOST_BITS = 2**28  # that are moved to find the heights of packings: some hundredths of a second


def least_height(problem: Problem, bound: int, arena: int) -> int:
    """The least arena from `bound` on that some of the sizes add up to.

    A packing can be pushed down until each block lies on the ground or on another one, so its arena
    is a sum of sizes of different blocks.

    Args:
        problem: the blocks.
        bound: bytes that no packing is below.
        arena: bytes that some packing has; no higher sum is sought.

    Returns:
        Bytes that no packing is below; `bound` itself where sums are too many.

    Example:
        >>> least_height(Problem([6, 10, 15], [0, 0, 1], [1, 2, 2]), 26, 31)
        31
    """
    size = problem.aligned
    if bound >= arena or not len(size):
        return bound
    unit = int(np.gcd.reduce(size))
    low, high = -(-bound // unit), arena // unit
    if len(size) * high > _MOST_BITS:
        return bound
    within = (1 << (high + 1)) - 1
    sums = 1  # bit s: some sizes add up to s units
    for one in size.tolist():
        sums |= sums << (one // unit)
        sums &= within
    above = sums >> low
    return (low + (above & -above).bit_length() - 1) * unit if above else bound
