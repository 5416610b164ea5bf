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

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import is_among, numbered
from pgmo.profiler.recording import Iteration

UNPAIRED = -1

_PASSES = 12
_SHARE = 0.98
"""Of the requests of the shorter one that are paired: below it anchors may have led astray."""

_NEAR, _AT_HAND = 16, 8
"""The part of an iteration by which anchors may be off then, and requests."""

_RATIOS, _VOTERS = 6, 128

_Gap = tuple[int, int, int, int]  # a[low:high] against b[left:right]


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
    a, b = _tokens(reference, other)
    difference, longer = abs(len(a) - len(b)), max(len(a), len(b))
    best, most = np.full(len(b), UNPAIRED, np.int64), -1
    for off in (longer, difference + longer // _NEAR, difference + _AT_HAND):
        rows = _Aligner(a, b, reference, other, off).run()
        paired = int(np.count_nonzero(rows != UNPAIRED))
        if paired > most:
            best, most = rows, paired
        if most >= _SHARE * min(len(a), len(b)):
            break
    return best


def _tokens(reference: Iteration, other: Iteration) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers each distinct (size, stream)."""
    _, size = numbered(np.concatenate((reference.size, other.size)))
    _, stream = numbered(np.concatenate((reference.stream, other.stream)))
    _, token = numbered(size * (stream.max(initial=0) + 1) + stream)
    return token[: len(reference)], token[len(reference) :]


class _Aligner:
    """One alignment: the pairs found so far and the gaps still open.

    Args:
        a, b: the requests of both, as numbers of their sizes and streams.
        reference, other: see `align`.
        off: by how many requests the places of an anchor may differ. Of two micro-batches the
            second may have the length today that the first had then, and all of its sizes; and one
            request that is logged makes each of its size another one's counterpart.
    """

    def __init__(
        self,
        a: NDArray[np.int64],
        b: NDArray[np.int64],
        reference: Iteration,
        other: Iteration,
        off: int,
    ) -> None:
        self.a, self.b = a, b
        self.stream = reference.stream, other.stream
        self.size = reference.size.astype(np.float64), other.size.astype(np.float64)
        self.row = np.full(len(b), UNPAIRED, np.int64)
        self._off = off

    def run(self) -> NDArray[np.int64]:
        gaps = [(0, len(self.a), 0, len(self.b))]
        barren: list[_Gap] = []
        for _ in range(_PASSES):
            opened: list[_Gap] = []
            for gap in gaps:
                self._anchor(gap, opened, barren)
            gaps = opened
        if barren or gaps:
            self._align_gaps(barren + gaps)
        paired = self.row != UNPAIRED
        mixed = self.stream[0][self.row[paired]] != self.stream[1][paired]
        self.row[np.flatnonzero(paired)[mixed]] = UNPAIRED
        return self.row

    def _anchor(self, gap: _Gap, opened: list[_Gap], barren: list[_Gap]) -> None:
        """Fixes the anchors in a gap, and opens the gaps that they leave."""
        low, high, left, right = gap
        a, b = self.a[low:high], self.b[left:right]
        if not len(a) or not len(b):
            return
        x, y = _balanced(a, b)
        at_hand = np.abs(low + x - left - y) <= self._off
        x, y = x[at_hand], y[at_hand]
        if not len(x):
            barren.append(gap)
            return
        keep = _chain(y)
        if 2 * len(keep) < len(y):  # they contradict each other: equal counts by chance
            barren.append(gap)
            return
        x, y = x[keep], y[keep]
        self.row[left + y] = low + x
        # The gaps before, between and after the anchors.
        x = low + np.concatenate(([-1], x, [len(a)]))
        y = left + np.concatenate(([-1], y, [len(b)]))
        a_gap, b_gap = np.diff(x) - 1, np.diff(y) - 1
        even = (a_gap == b_gap) & (a_gap > 0)
        self._pair_by_ordinal(x[:-1][even], y[:-1][even], a_gap[even])
        for k in np.flatnonzero((a_gap != b_gap) & (a_gap > 0) & (b_gap > 0)):
            opened.append((int(x[k]) + 1, int(x[k + 1]), int(y[k]) + 1, int(y[k + 1])))

    def _pair_by_ordinal(
        self, a_before: NDArray[np.int64], b_before: NDArray[np.int64], length: NDArray[np.int64]
    ) -> None:
        within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1
        self.row[np.repeat(b_before, length) + within] = np.repeat(a_before, length) + within

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
        values, inverse = np.unique(ratio[alike], return_inverse=True)
        votes = np.bincount(inverse, np.minimum(a_count[:, None], b_count[None, :])[alike])
        return values[np.argsort(-votes, kind="stable")[:_RATIOS]]

    def _align_gaps(self, gaps: list[_Gap]) -> None:
        """Fills gaps without anchors by dynamic programming; see csrc/alignment/windows.hpp."""
        _core.pair_in_gaps(
            *(self.a, self.size[0], self.stream[0]),
            *(self.b, self.size[1], self.stream[1]),
            ratios=self._common_ratios(),
            gaps=np.array(gaps, np.int64).reshape(-1, 4),
            row=self.row,
        )


def _balanced(
    a: NDArray[np.int64], b: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of tokens that occur equally often in both, k-th with k-th occurrence."""
    base = min(int(a.min()), int(b.min()))
    if max(len(a), len(b)) * 64 < max(int(a.max()), int(b.max())) - base:
        _, joint = np.unique(np.concatenate((a, b)), return_inverse=True)
        a, b, base = joint[: len(a)], joint[len(a) :], 0
    length = max(int(a.max()), int(b.max())) - base + 1
    counts = np.bincount(a - base, minlength=length) == np.bincount(b - base, minlength=length)
    x, y = np.flatnonzero(counts[a - base]), np.flatnonzero(counts[b - base])
    # Sorted by token, then position: equal counts make the two orders correspond.
    x, y = x[np.argsort(a[x], kind="stable")], y[np.argsort(b[y], kind="stable")]
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _chain(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of a longest increasing subsequence of distinct numbers (patience sorting)."""
    if np.all(y[1:] > y[:-1]):
        return np.arange(len(y))
    tops: list[int] = []
    top_at: list[int] = []
    before = np.empty(len(y), np.int64)
    for at, value in enumerate(y.tolist()):
        pile = bisect_left(tops, value)
        before[at] = top_at[pile - 1] if pile else -1
        if pile == len(tops):
            tops.append(value)
            top_at.append(at)
        else:
            tops[pile], top_at[pile] = value, at
    chain = []
    at = top_at[-1]
    while at >= 0:
        chain.append(at)
        at = int(before[at])
    return np.array(chain[::-1], np.int64)
