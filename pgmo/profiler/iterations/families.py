"""Requests that change their sizes together: what a layer asks for, it asks for in each layer.

    longest iteration    8 MiB  8 MiB  8 MiB  8 MiB
    another one          6      7      6      7
    family               0      1      0      1

Replay knows the size of a whole family once one of it has come. At one length two families may look
alike, as where a length is padded that needs no padding; so each iteration tells families apart.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import numbered
from pgmo.profiler.iterations.request_pairs import UNPAIRED


def families(size: NDArray[np.int64], stream: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """As far as one iteration tells: the requests of one size on one stream; shape (n,)."""
    return _numbered(size, stream)


def refine(
    family: NDArray[np.uint32], rows: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Tells apart what has different sizes in one more iteration.

    Args:
        family: of n requests.
        rows: for each of m requests of that iteration its ordinal among these, or -1.
        size: of the m requests.

    Returns:
        Families, shape (n,). Requests that the iteration leaves out stay with most of theirs.

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
    return _numbered(family, own)


def _most_common(family: NDArray[np.uint32], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """By family the size that most of its requests have; -1 where none came."""
    most = np.full(int(family.max(initial=0)) + 1, -1, np.int64)
    came = size >= 0
    pairs, counts = np.unique(
        np.stack((family[came].astype(np.int64), size[came])), axis=1, return_counts=True
    )
    for at in np.argsort(counts, kind="stable"):
        most[pairs[0, at]] = pairs[1, at]
    return most


def _numbered(*keys: NDArray[np.generic]) -> NDArray[np.uint32]:
    """Numbers the distinct tuples, from 0 on."""
    columns = [numbered(key)[1] for key in keys]
    joint = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        joint = joint * (int(column.max(initial=0)) + 1) + column
    return numbered(joint)[1].astype(np.uint32)
