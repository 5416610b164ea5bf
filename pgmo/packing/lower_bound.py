"""The max load: what no packing of a problem can go below."""

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
