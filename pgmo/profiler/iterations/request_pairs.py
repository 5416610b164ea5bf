"""Alignment of two iterations that differ by some requests and many sizes.

    base    a 4 b 4 c d 4 e        letters: sizes that depend on the shape (varying)
    other   A 4 B   C D 4 E        digits: sizes that do not (fixed), the anchors
    pairs   | | |   | | | |        one request is missing: another kernel was chosen

An edit distance (Myers, or difflib) would take quadratic time, because every varying size is a
difference. Instead, the algorithm searches for anchors as in patience diff. A size need not be
unique: sizes that occur *equally often* in both sequences are paired occurrence by occurrence. The
longest increasing chain of these pairs is kept. Each gap between anchors is searched for anchors,
too: more sizes may occur equally often within a gap. Gaps of equal length are paired by position.
Gaps without anchors are aligned by dynamic programming, in a sliding window if they are large. No
step takes more than O(n log n), and the number of passes is bounded.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import is_among, numbered_rows
from pgmo.profiler.recording import Iteration

UNPAIRED = -1

_SHARE = 0.98
"""Minimum share of the shorter iteration's requests that must be paired. Below it, anchors may be
wrong, so alignment is repeated with a smaller displacement of anchors."""

_SHIFT_DIVISOR, _LEAST_SHIFT = 16, 8
"""Allowed displacement of anchors in the second try (1/16 of the longer iteration) and the third
(8 requests), in addition to the difference in length."""

_RATIOS, _VOTERS = 6, 128
"""Number of size ratios that alignment tries, and of sizes per iteration from which they come."""

LENGTH_RATIO = 16
"""Maximum ratio of two sequence lengths of one program, as in `pgmo.allocator.heuristics`."""


def align(reference: Iteration, other: Iteration) -> NDArray[np.int64]:
    """Return the request of `reference` that corresponds to each request of `other`.

    Returns:
        Indices into `reference`, strictly increasing where not `UNPAIRED`, shape (len(other),).
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
    for off in (longer, difference + longer // _SHIFT_DIVISOR, difference + _LEAST_SHIFT):
        rows, gaps = one.anchored(off)
        anchors = rows.tobytes()
        if anchors in tried:  # Equal anchors leave equal gaps.
            continue
        tried.append(anchors)
        one.fill(gaps, rows)
        paired = int(np.count_nonzero(rows != UNPAIRED))
        if paired > most:
            best, most = rows, paired
        if most >= _SHARE * min(len(reference), len(other)):
            break
    return best


class _Aligner:
    """Pair of iterations, with a number for each distinct size and stream."""

    def __init__(self, reference: Iteration, other: Iteration) -> None:
        token = numbered_rows(
            np.concatenate((reference.size, other.size)),
            np.concatenate((reference.stream, other.stream)),
        )
        self.a, self.b = token[: len(reference)], token[len(reference) :]
        self.stream = reference.stream, other.stream
        self.size = reference.size.astype(np.float64), other.size.astype(np.float64)

    def anchored(self, off: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the pairs of anchors and the gaps between them; see csrc/alignment/anchors.hpp.

        The two positions of an anchor may differ by `off` requests. Without this limit, one extra
        request could shift all pairs of its size, and micro-batches could be paired wrongly.
        """
        rows = np.full(len(self.b), UNPAIRED, np.int64)
        return rows, _core.pair_by_anchors(self.a, self.b, off, rows)

    def fill(self, gaps: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Pair requests in the gaps by dynamic programming; see csrc/alignment/windows.hpp."""
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
        """Return at most `_RATIOS` likely ratios of sizes, most likely first.

        Candidates are ratios of sizes that occur in only one of the iterations, with similar
        frequency.
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
