"""Families: requests whose sizes change together, such as the same request of each layer.

    longest iteration    8 MiB  8 MiB  8 MiB  8 MiB
    another iteration    6      7      6      7
    family               0      1      0      1

In replay, the first request of a family determines the sizes of all others with the same planned
size. Two families may have equal sizes at one sequence length, for example without padding. An
iteration at another length can separate the two families.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import numbered, numbered_rows
from pgmo.profiler.iterations.request_pairs import UNPAIRED


def families(size: NDArray[np.int64], stream: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return family numbers for one iteration: equal for equal size and stream; shape (n,)."""
    return numbered_rows(size, stream).astype(np.uint32)


def refine(
    family: NDArray[np.uint32], rows: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Split families whose requests have different sizes in another iteration.

    A request that the other iteration lacks counts as having its family's most common size there.

    Args:
        family: family of each of n requests, shape (n,).
        rows: index into `family` of each request of the other iteration, or -1; shape (m,).
        size: sizes of the other iteration's requests in bytes, shape (m,).

    Example:
        >>> same = np.zeros(4, np.uint32)
        >>> refine(same, np.array([0, 1, 3]), np.array([6, 7, 6])).tolist()
        [0, 1, 0, 0]
    """
    paired = rows != UNPAIRED
    own = np.full(len(family), -1, np.int64)
    own[rows[paired]] = size[paired]
    absent = own < 0
    if np.any(absent):
        own[absent] = _most_common(family, own)[family[absent]]
    return numbered_rows(family, own).astype(np.uint32)


def _most_common(family: NDArray[np.uint32], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most common size of each family, or -1 if none of its sizes is known."""
    most = np.full(int(family.max(initial=0)) + 1, -1, np.int64)
    came = size >= 0
    sizes, number = numbered(size[came])
    pairs, counts = np.unique(
        family[came].astype(np.int64) * max(1, len(sizes)) + number, return_counts=True
    )
    owner, value = np.divmod(pairs, max(1, len(sizes)))
    # The pairs are ordered by family. Order the pairs of each family by count, and take the last.
    order = np.lexsort((counts, owner))
    last = order[np.flatnonzero(np.diff(owner, append=-1))]
    most[owner[last]] = sizes[value[last]]
    return most
