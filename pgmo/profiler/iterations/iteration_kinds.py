"""Comparison of two iterations: equal requests, one structure with different sizes, or neither.

Two iterations agree *exactly* if they have the same sizes on the same streams in the same order.
They *fit* if they have one structure at two *shapes*, such as sequence lengths. `_convincing`
decides whether different sizes come from another shape or another network. A wrong decision costs
only speed, because replay checks every request.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.request_pairs import LENGTH_RATIO, UNPAIRED, align
from pgmo.profiler.recording import Iteration
from pgmo.units import format_bytes

Kind = Literal["exact", "fit", "none"]

_SEVERAL = 3
"""Minimum number of requests of one size for that size to count in `_sizes_stay_grouped`."""


@dataclass(frozen=True, eq=False)
class Match:
    """Result of a comparison. `explanation` describes the result in words.

    Args:
        kind: "exact", "fit" or "none".
        base: the longer iteration, or the first at equal length.
        other: the other iteration.
        rows: index in `base` of each request of `other`, or -1; shape (len(other),).
        varying: whether paired sizes differ, shape (len(base),).
    """

    kind: Kind
    base: Iteration
    other: Iteration
    rows: NDArray[np.int64]
    varying: NDArray[np.bool_]
    explanation: str

    def rows_in(self, one: Iteration) -> NDArray[np.int64]:
        """Return the index in `one` of each request of the iteration that is not `one`, or -1."""
        if one is self.base:
            return self.rows
        inverse = np.full(len(self.base), UNPAIRED)
        paired = np.flatnonzero(self.rows != UNPAIRED)
        inverse[self.rows[paired]] = paired
        return inverse


def compare(first: Iteration, second: Iteration) -> Match:
    """Compare two iterations."""
    base, other = (first, second) if len(first) >= len(second) else (second, first)
    if base.same_requests(other):
        same = f"{_name(base)} and {_name(other)} issue the same {len(base)} requests"
        rows = np.arange(len(base))
        return Match("exact", base, other, rows, np.zeros(len(base), np.bool_), same)
    difference = first_difference(first, second)
    convincing = [rows for rows in _pairings(base, other) if _convincing(base, other, rows)]
    if convincing:
        rows = max(convincing, key=lambda rows: _explained(base, other, rows))
        return _fit(base, other, rows, difference)
    rows = np.full(len(other), UNPAIRED)
    return Match("none", base, other, rows, np.zeros(len(base), np.bool_), difference)


def _pairings(base: Iteration, other: Iteration) -> list[NDArray[np.int64]]:
    """Return pairings of two iterations: by alignment, and by position at equal length."""
    pairings = []
    if len(base) == len(other):
        pairings.append(np.where(base.stream == other.stream, np.arange(len(base)), UNPAIRED))
    if len(base) <= 2 * len(other):
        pairings.append(align(base, other))
    return pairings


def _explained(base: Iteration, other: Iteration, rows: NDArray[np.int64]) -> int:
    """Count the pairs whose sizes are equal or have one of the four most common ratios.

    Equal sizes alone would mislead: at twice the length, a layer may have the next layer's sizes.
    """
    paired = np.flatnonzero(rows != UNPAIRED)
    before, after = base.size[rows[paired]], other.size[paired]
    changed = before != after
    laws = _count_commonest_ratios(np.log2(after[changed] / before[changed]))
    return len(paired) - int(changed.sum()) + laws


def _count_commonest_ratios(ratio: NDArray[np.float64]) -> int:
    """Count the logarithms of ratios that are among the four most common, to two digits."""
    _, counts = np.unique(np.round(ratio, 2), return_counts=True)
    return int(np.sort(counts)[-4:].sum())


def _fit(base: Iteration, other: Iteration, rows: NDArray[np.int64], difference: str) -> Match:
    rows = rows.copy()
    paired = np.flatnonzero(rows != UNPAIRED)
    before, after = base.size[rows[paired]], other.size[paired]
    # Replay does not match sizes as different as a batch and a scalar.
    fits = (after <= before * LENGTH_RATIO) & (after >= before // LENGTH_RATIO**2)
    rows[paired[~fits]] = UNPAIRED
    paired = paired[fits]
    varying = np.zeros(len(base), np.bool_)
    varying[rows[paired]] = base.size[rows[paired]] != other.size[paired]
    absent = len(base) - len(paired)
    explanation = (
        f"{_name(base)} and {_name(other)} have one structure: {int(varying.sum())} of "
        f"{len(base)} requests differ in size, {absent} are unpaired; first, {difference}"
    )
    return Match("fit", base, other, rows, varying, explanation)


def _convincing(base: Iteration, other: Iteration, rows: NDArray[np.int64]) -> bool:
    """Return whether a pairing shows one structure at two shapes rather than two networks.

    Nine in ten requests of the shorter iteration must be paired. The shorter iteration must have at
    least half as many requests as the longer one. In addition, one of these rules must hold:

    1. Half of the pairs have equal sizes (gradients, optimizer temporaries).
    2. An eighth have equal sizes. At least half of the other requests share their size with two
       more, and seven in eight of these get their group's most common new size. The same holds for
       groups by new size.
    3. An eighth have equal sizes. Of the other pairs, nine in ten change in one direction, and
       three quarters by one of four ratios. (Two networks differ by as many ratios as they have
       layers.)

    Measured on third-party training loops: the share of requests in rule 2 is at least 0.91 for one
    program at two shapes or with two choices of experts. The share is at most 0.53 for two
    different programs of the same length (0.71 for two kinds of BERT). One program has 20 to 77 %
    of equal pairs, two programs have 0 to 16 %.
    """
    paired = np.flatnonzero(rows != UNPAIRED)
    if 2 * len(other) < len(base) or 10 * len(paired) < 9 * len(other) or not len(paired):
        return False
    before, after = base.size[rows[paired]], other.size[paired]
    changed = before != after
    equal = len(paired) - int(changed.sum())
    if 2 * equal >= len(paired):
        return True
    if 8 * equal < len(paired):
        return False
    before, after = before[changed], after[changed]
    if _sizes_stay_grouped(before, after) and _sizes_stay_grouped(after, before):
        return True
    ratio = np.log2(after / before)  # Logarithms treat growth and shrinkage equally.
    grown = float(np.mean(ratio > 0))
    return (grown <= 0.1 or grown >= 0.9) and 4 * _count_commonest_ratios(ratio) >= 3 * len(ratio)


def _sizes_stay_grouped(before: NDArray[np.int64], after: NDArray[np.int64]) -> bool:
    """Return whether rule 2 of `_convincing` holds for the groups of equal size `before`."""
    _, kind, often = np.unique(before, return_inverse=True, return_counts=True)
    several = often[kind] >= _SEVERAL
    if 2 * several.sum() < len(before):
        return False
    values, value = np.unique(after[several], return_inverse=True)
    pairs, counts = np.unique(kind[several] * len(values) + value, return_counts=True)
    most = np.zeros(len(often), np.int64)
    np.maximum.at(most, pairs // max(1, len(values)), counts)
    return bool(8 * most.sum() >= 7 * several.sum())


def first_difference(first: Iteration, second: Iteration) -> str:
    """Describe the first request that differs."""
    shared = min(len(first), len(second))
    sizes = first.size[:shared] != second.size[:shared]
    differ = np.flatnonzero(sizes | (first.stream[:shared] != second.stream[:shared]))
    if not differ.size:
        return f"{_name(first)} issues {len(first)} requests, {_name(second)} issues {len(second)}"
    at = int(differ[0])
    if not sizes[at]:
        return (
            f"request {at} is on stream {first.stream[at]} in {_name(first)}, "
            f"on stream {second.stream[at]} in {_name(second)}"
        )
    before, after = _two_sizes((int(first.size[at]), int(second.size[at])))
    return f"request {at} asks for {before} in {_name(first)}, {after} in {_name(second)}"


def _name(iteration: Iteration) -> str:
    """Return a name for messages. The requests of a plan have no iteration number."""
    return f"iteration {iteration.index}" if iteration.index >= 0 else "the plan"


def _two_sizes(sizes: Iterable[int]) -> list[str]:
    """Format sizes so that different sizes have different texts."""
    sizes = list(sizes)
    texts = [format_bytes(size) for size in sizes]
    return texts if len(set(texts)) == len(set(sizes)) else [f"{size} B" for size in sizes]
