"""Pairs the requests of two iterations that differ by some requests and many sizes.

    base    a 4 b 4 c d 4 e        letters: sizes that depend on the shape (varying)
    other   A 4 B   C D 4 E        digits: sizes that do not (fixed), the anchors
    pairs   | | |   | | | |        one request is missing: another kernel was chosen

An edit distance (Myers, or difflib) is lost here: every varying size is a difference, so there
are as many differences as requests and the time is quadratic. Instead anchors are sought, as
patience diff does, but a size need not be unique: sizes that occur *equally often* in both
sequences are paired occurrence by occurrence, the longest increasing chain of these pairs is
kept, and each gap between anchors is treated in the same way, because sizes that are not balanced
over the whole often are inside a gap. Gaps of equal length are paired by ordinal at once. Gaps
without anchors are aligned by dynamic programming, whole when they are small, else in a window
that slides along both, so that no step costs more than O(n log n). The number of passes is
bounded.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import is_among, numbered
from pgmo.profiler.recording import Iteration

UNPAIRED = -1

_SHARE = 0.98
"""Of the requests of the shorter one that are paired: below it anchors may have led astray."""

_NEAR, _AT_HAND = 16, 8
"""The part of an iteration by which anchors may be off then, and requests."""

_RATIOS, _VOTERS = 6, 128

LENGTH_RATIO = 16
"""Maximum ratio of two lengths of one program, as `pgmo.allocator.heuristics` has it."""


def align(reference: Iteration, other: Iteration) -> NDArray[np.int64]:
    """Finds for each request of `other` the request of `reference` that it corresponds to.

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
    one = _Aligner(reference, other)
    difference, longer = abs(len(reference) - len(other)), max(len(reference), len(other))
    best, most = np.full(len(other), UNPAIRED, np.int64), -1
    tried: list[bytes] = []
    for off in (longer, difference + longer // _NEAR, difference + _AT_HAND):
        rows, gaps = one.anchored(off)
        anchors = rows.tobytes()
        if anchors in tried:  # and so are the gaps between them
            continue
        tried.append(anchors)
        one.fill(gaps, rows)
        paired = int(np.count_nonzero(rows != UNPAIRED))
        if paired > most:
            best, most = rows, paired
        if most >= _SHARE * min(len(reference), len(other)):
            break
    return best


def _tokens(reference: Iteration, other: Iteration) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers each distinct (size, stream)."""
    _, size = numbered(np.concatenate((reference.size, other.size)))
    _, stream = numbered(np.concatenate((reference.stream, other.stream)))
    _, token = numbered(size * (stream.max(initial=0) + 1) + stream)
    return token[: len(reference)], token[len(reference) :]


class _Aligner:
    """The requests of two iterations, as numbers of their sizes and streams.

    Args:
        reference, other: see `align`.
    """

    def __init__(self, reference: Iteration, other: Iteration) -> None:
        self.a, self.b = _tokens(reference, other)
        self.stream = reference.stream, other.stream
        self.size = reference.size.astype(np.float64), other.size.astype(np.float64)

    def anchored(self, off: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of anchors, and what they leave; see csrc/alignment/anchors.hpp.

        Args:
            off: by how many requests the places of an anchor may differ. Of two micro-batches the
                second may have the length today that the first had then, and all of its sizes; and
                one request that is logged makes each of its size another one's counterpart.

        Returns:
            For each request of `other` that of `reference` or -1, shape (len(other),), and the
            gaps without anchors, shape (g, 4).
        """
        rows = np.full(len(self.b), UNPAIRED, np.int64)
        return rows, _core.pair_by_anchors(self.a, self.b, off, rows)

    def fill(self, gaps: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Adds the pairs in the gaps, by dynamic programming; see csrc/alignment/windows.hpp."""
        if len(gaps):
            _core.pair_in_gaps(
                *(self.a, self.size[0], self.stream[0]),
                *(self.b, self.size[1], self.stream[1]),
                ratios=self._common_ratios(),
                gaps=gaps,
                row=rows,
            )
        paired = rows != UNPAIRED
        mixed = self.stream[0][rows[paired]] != self.stream[1][paired]
        rows[np.flatnonzero(paired)[mixed]] = UNPAIRED

    def _common_ratios(self) -> NDArray[np.float64]:
        """How sizes probably change between the two: a vote of sizes that only one of them has.

        Two sizes vote for their ratio when they are about equally frequent.
        """
        kinds = []
        for own, foreign, size in ((self.a, self.b, 0), (self.b, self.a, 1)):
            token, at, count = np.unique(own, return_index=True, return_counts=True)
            alone = ~is_among(token, foreign)
            often = np.argsort(-count[alone], kind="stable")[:_VOTERS]
            kinds.append((self.size[size][at[alone][often]], count[alone][often]))
        (a_size, a_count), (b_size, b_count) = kinds
        ratio = np.round(b_size[None, :] / a_size[:, None], 6)
        alike = np.abs(a_count[:, None] - b_count[None, :]) <= 0.1 * a_count[:, None]
        alike &= (ratio <= LENGTH_RATIO) & (ratio >= LENGTH_RATIO**-2)
        values, inverse = np.unique(ratio[alike], return_inverse=True)
        votes = np.bincount(inverse, np.minimum(a_count[:, None], b_count[None, :])[alike])
        return values[np.argsort(-votes, kind="stable")[:_RATIOS]]
