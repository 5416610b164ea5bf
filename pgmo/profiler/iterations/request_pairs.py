"""Pairs the requests of two iterations that differ by some requests and many sizes.

    base    a 4 b 4 c d 4 e        letters: sizes that depend on the shape (varying)
    other   A 4 B   C D 4 E        digits: sizes that do not (fixed)
    pairs   | | |   | | | |        one request is missing: another kernel was chosen

The rule is that of replay, with a look at what follows in both: see csrc/alignment/pairing.hpp. An
edit distance (Myers, difflib) takes quadratic time here, as every varying size is a difference.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import numbered
from pgmo.profiler.recording import Iteration

UNPAIRED = -1


def align(reference: Iteration, other: Iteration) -> NDArray[np.int64]:
    """Find for each request of `other` the request of `reference` that it corresponds to.

    Args:
        reference: the iteration that gives the ordinals; may be longer or shorter.
        other: the iteration whose requests are to be placed.

    Returns:
        Ordinals in `reference`, strictly increasing where not `UNPAIRED`, shape (len(other),).
        Paired requests are on the same stream.

    Example:
        >>> from pgmo.profiler.recording import make_events, split
        >>> sizes = [5, 64, 7, 32, 9, "step", 6, 64, 32, 10, "step"]
        >>> rows = [("step",) if size == "step" else ("request", size) for size in sizes]
        >>> align(*split(make_events(rows))).tolist()
        [0, 1, 3, 4]
    """
    a_token, b_token = _tokens(reference, other)
    return _core.pair_requests(
        *(a_token, reference.size, reference.stream),
        *(b_token, other.size, other.stream),
    )


def _tokens(reference: Iteration, other: Iteration) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number each distinct (size, stream)."""
    _, size = numbered(np.concatenate((reference.size, other.size)))
    _, stream = numbered(np.concatenate((reference.stream, other.stream)))
    _, token = numbered(size * (stream.max(initial=0) + 1) + stream)
    return token[: len(reference)], token[len(reference) :]
