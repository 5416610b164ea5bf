"""The laws of all requests of a loop, also of those that some of its profiles lack.

batch        2     4     8
a           40    80   160     5 * 4 batch
w            -     -   160     like a: kernels that rearrange a tensor ask for its size
x            -     -   148     148, or 18.6 batch: the larger one, unless it is little
"""

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.extrapolation.size_laws import Point, Polynomial, SizeLaw, fit

_MARGIN = Fraction(1, 256)
"""What a size that is known from one profile alone may be larger than in proportion: buffers are
rounded to blocks of threads, by a ten-thousandth where that was seen."""

_MOST = 8
"""Different laws that are kept for one request, the largest of which counts at any point."""

_LITTLE = 64
"""Share of the largest request below which, on a CPU, a size that no tensor has stays as it is:
the partial results of threads do. Larger ones may grow, and all on CUDA, where buffers of sums and
sorts were seen to."""


def laws_of(
    points: Sequence[Point], sizes: NDArray[np.int64], *, threads: bool = True
) -> tuple[list[tuple[SizeLaw, ...]], NDArray[np.intp]]:
    """Finds the laws of each row of sizes.

    Args:
        points: values of the parameters in each profile, in ascending order.
        sizes: bytes, shape (rows, len(points)); 0 where a profile lacks the request. The last has
            them all.
        threads: whether kernels run in a fixed number of threads, as on a CPU.

    Returns:
        The simplest laws of each distinct row, and for each row its place among these.

    Example:
        >>> laws, row = laws_of([(2,), (4,), (8,)], np.array([[40, 80, 160], [0, 0, 160]]))
        >>> [laws[at][0].at((64,)) for at in row]
        [1280, 1280]
    """
    distinct, row = np.unique(sizes, axis=0, return_inverse=True)
    present = distinct > 0
    laws: list[tuple[SizeLaw, ...]] = [()] * len(distinct)
    groups, group = np.unique(present, axis=0, return_inverse=True)
    group = group.reshape(-1)
    lonely: list[int] = []
    for number, seen in enumerate(groups):
        rows = np.flatnonzero(group == number)
        there = [point for point, one in zip(points, seen, strict=True) if one]
        if not tell_apart(there):
            lonely += rows.tolist()
            continue
        fitted = fit(there, distinct[rows][:, seen], threads=threads)
        for at, found in zip(rows.tolist(), fitted, strict=True):
            laws[at] = found
    whole = np.flatnonzero(present.all(axis=1))
    for at in lonely:
        seen = present[at]
        like = [
            other for other in whole if np.array_equal(distinct[other, seen], distinct[at, seen])
        ]
        laws[at] = _analogous([law for other in like for law in laws[other]])
        laws[at] = laws[at] or _from_above(
            points[-1], int(distinct[at, -1]), int(distinct[:, -1].max()) if threads else 0
        )
    return laws, row.reshape(-1)


def tell_apart(points: Sequence[Point]) -> bool:
    """Whether these show how something depends on each of the parameters.

    Example:
        >>> tell_apart([(2, 16), (4, 16)]), tell_apart([(2, 16), (4, 16), (4, 32)])
        (False, True)
    """
    if not points:
        return False
    matrix = np.array([(1, *point) for point in points], np.float64)
    return bool(np.linalg.matrix_rank(matrix) == matrix.shape[1])


def _analogous(laws: Sequence[SizeLaw]) -> tuple[SizeLaw, ...]:
    """Those of tensors that have the same size wherever this was seen."""
    return tuple(dict.fromkeys(law for law in laws if law.kind != "upper"))[:_MOST]


def _from_above(point: Point, size: int, largest: int) -> tuple[SizeLaw, ...]:
    """Of a request of which nothing else is known: it is the same, or grows with everything."""
    none, all_of_them = (0,) * len(point), (1,) * len(point)
    same = Polynomial((none,), (Fraction(size),), checked=False)
    if size * _LITTLE < largest:
        return (same,)
    growing = Fraction(size, prod(point)) * (1 + _MARGIN)
    return same, Polynomial((all_of_them,), (growing,), checked=False)
