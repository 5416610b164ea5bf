"""Lower bounds on the arena of a packing: the max load, and sums of block sizes."""

import numpy as np

from pgmo import _core
from pgmo.packing.problem import Problem


def max_load(problem: Problem) -> int:
    """Return the largest sum of aligned sizes alive at one tick, in bytes, in O(n log n).

    Example:
        >>> max_load(Problem([64, 32, 16], [0, 1, 2], [2, 3, 4], period=4))
        96
        >>> max_load(Problem([64, 32], [0, 1], [1, 3], period=2))
        96
    """
    return int(_core.max_load(*problem.native))


# Maximum number of bit operations of `least_height`. They take some hundredths of a second. If more
# would be needed, the bound stays as it is.
_MOST_BITS = 2**28


def least_height(problem: Problem, bound: int, arena: int) -> int:
    """Return the smallest sum of block sizes, in bytes, that is at least the lower bound `bound`.

    Blocks of a packing can be moved down until each lies at offset 0 or on another block. Then the
    arena is a sum of sizes, so the result is a lower bound, too. `arena` is the arena of a known
    packing; larger sums are not considered. If no sum is found, or there are too many to compute,
    the result is `bound`.

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
    sums = 1  # Bit s is set if some sizes add up to s units.
    for one in size.tolist():
        sums |= sums << (one // unit)
        sums &= within
    above = sums >> low
    return (low + (above & -above).bit_length() - 1) * unit if above else bound
