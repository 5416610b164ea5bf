"""Finds the steady state: iterations that issue the same requests.

For the caller, after each recorded iteration:

    iterations = split(events)
    steady = find_steady(iterations)               # None: nothing agrees yet, record on
    if steady and steady.followers >= 2: ...       # its wrapping frees have been seen
        profile = build_profile(iterations, steady, tags, meta)
    elif too_many: profile = build_profile(iterations, best_effort(iterations), tags, meta)

`steady.explanation` says in words what agrees, or, from `best_effort`, what does not.

Two iterations agree *exactly* (the same sizes on the same streams in the same order), or they *fit*:
one structure at two shapes. Whether sizes that differ are another shape or another network is decided
by the rule of `_convincing`; it judges speed, never safety, because replay checks every request.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.alignment import UNPAIRED, align
from pgmo.profiler.recording import Iteration
from pgmo.units import format_bytes

Kind = Literal["exact", "fit", "none"]


@dataclass(frozen=True, eq=False)
class Match:
    """How two iterations compare. The `base` is the longer one, the first at equal length.

    Args:
        kind: "exact", "fit" or "none".
        base: the iteration whose requests give the ordinals.
        other: the one that was compared with it.
        rows: for each request of `other` its ordinal in `base` or -1, shape (len(other),).
        varying: where paired sizes differ, shape (len(base),).
        explanation: the result in words, with the first difference.
    """

    kind: Kind
    base: Iteration
    other: Iteration
    rows: NDArray[np.int64]
    varying: NDArray[np.bool_]
    explanation: str


@dataclass(frozen=True, eq=False)
class Steady:
    """A group of iterations of one structure.

    Args:
        kind: "exact", "fit", or "none" when made by `best_effort`.
        reference: index of the iteration whose ordinals are used.
        rows: for each member its requests' ordinals in the reference or -1, by iteration index.
        varying: where members disagree about the size, shape (requests of the reference,).
        followers: complete iterations recorded after the reference; from two on, the frees of
            wrapping and doubly live blocks have been seen; with none they look persistent.
        explanation: why these belong together, or why nothing does.
    """

    kind: Kind
    reference: int
    rows: dict[int, NDArray[np.int64]]
    varying: NDArray[np.bool_]
    followers: int
    explanation: str


def compare(first: Iteration, second: Iteration) -> Match:
    """Compares two iterations: the same requests, the same structure at other sizes, or neither.

    Example:
        >>> from pgmo.profiler.recording import make_events, split
        >>> sizes = [64, 32, "step", 64, 32, "step", 64, 16, "step"]
        >>> rows = [("step",) if size == "step" else ("request", size) for size in sizes]
        >>> one, two, three = split(make_events(rows))
        >>> compare(one, two).kind, compare(one, three).kind
        ('exact', 'fit')
    """
    base, other = (first, second) if len(first) >= len(second) else (second, first)
    if base.same_requests(other):
        same = f"iterations {base.index} and {other.index} issue the same {len(base)} requests"
        rows = np.arange(len(base))
        return Match("exact", base, other, rows, np.zeros(len(base), np.bool_), same)
    difference = _first_difference(first, second)
    candidates = []
    if len(base) == len(other):
        rows = np.arange(len(base))
        candidates.append(np.where(base.stream == other.stream, rows, UNPAIRED))
    if len(base) <= 2 * len(other):
        candidates.append(np.empty(0, np.int64))  # only aligned when it comes to that
    for rows in candidates:
        rows = rows if len(rows) else align(base, other)
        if _convincing(base, other, rows):
            return _fit(base, other, rows, difference)
    rows = np.full(len(other), UNPAIRED)
    return Match("none", base, other, rows, np.zeros(len(base), np.bool_), difference)


def find_steady(iterations: list[Iteration]) -> Steady | None:
    """The newest structure that at least two recorded iterations share, or None.

    Iterations need not be adjacent: with training and evaluation in turn, each is compared with all.

    Example:
        >>> from pgmo.profiler.recording import make_events, split
        >>> rows = [("request", 8), ("step",), ("request", 4), ("step",), ("request", 8), ("step",)]
        >>> sorted(find_steady(split(make_events(rows))).rows)
        [0, 2]
    """
    return next(iter(find_all(iterations)), None)


def find_all(iterations: list[Iteration]) -> list[Steady]:
    """Every structure that at least two recorded iterations share, the newest first."""
    left = [iteration for iteration in iterations if len(iteration)]
    found = []
    # Exact repetitions first: they are certain, and iterations at other sizes then join them.
    for seek in (_exact_reference, _fit_reference):
        while (reference := seek(left)) is not None:
            steady = _gather(reference, left, len(iterations))
            found.append(steady)
            left = [iteration for iteration in left if iteration.index not in steady.rows]
    return sorted(found, key=lambda steady: -max(steady.rows))


def best_effort(iterations: list[Iteration]) -> Steady | None:
    """What to plan from when no iterations agree: the last one whose successor was recorded too.

    The profile made from it is marked as not steady. None without any requests.

    Example:
        >>> from pgmo.profiler.recording import make_events, split
        >>> rows = [("request", 8), ("step",), ("request", 4), ("step",)]
        >>> best_effort(split(make_events(rows))).explanation
        'request 0 asks for 8 B in iteration 0, 4 B in iteration 1'
    """
    full = [iteration for iteration in iterations if len(iteration)]
    if not full:
        return None
    base = full[-2] if len(full) > 1 else full[-1]
    rows = {base.index: np.arange(len(base))}
    explanation = f"only iteration {base.index} was recorded"
    if base is not full[-1]:
        # Ordinals of the next iteration tell when wrapping blocks die, as far as they match.
        rows[full[-1].index] = align(base, full[-1])
        explanation = _first_difference(base, full[-1])
    followers = len(iterations) - 1 - base.index
    varying = np.zeros(len(base), np.bool_)
    return Steady("none", base.index, rows, varying, followers, explanation)


def _exact_reference(iterations: list[Iteration]) -> Iteration | None:
    """The first of the newest group that repeats exactly."""
    for newer in reversed(iterations):
        same = [other for other in iterations if other.same_requests(newer)]
        if len(same) > 1:
            return same[0]
    return None


def _fit_reference(iterations: list[Iteration]) -> Iteration | None:
    """The longest of the newest pair that fits."""
    for at in range(len(iterations) - 1, 0, -1):
        for other in reversed(iterations[:at]):
            match = compare(other, iterations[at])
            if match.kind == "fit":
                return match.base
    return None


def _gather(reference: Iteration, iterations: list[Iteration], recorded: int) -> Steady:
    """Collects what fits the reference, moving over to a longer iteration of the same structure."""
    matches = [compare(reference, other) for other in iterations if other is not reference]
    longest = max((m.base for m in matches if m.kind == "fit"), key=len, default=reference)
    if len(longest) > len(reference):
        return _gather(longest, iterations, recorded)
    matches = [match for match in matches if match.kind != "none"]
    rows = {reference.index: np.arange(len(reference))}
    varying = np.zeros(len(reference), np.bool_)
    for match in matches:
        other = match.other if match.base is reference else match.base
        rows[other.index] = match.rows
        varying |= match.varying
    kind: Kind = "exact" if all(match.kind == "exact" for match in matches) else "fit"
    fits = [match.explanation for match in matches if match.kind == "fit"]
    explanation = (fits or [match.explanation for match in matches])[0]
    return Steady(kind, reference.index, rows, varying, recorded - 1 - reference.index, explanation)


def _fit(base: Iteration, other: Iteration, rows: NDArray[np.int64], difference: str) -> Match:
    paired = np.flatnonzero(rows != UNPAIRED)
    varying = np.zeros(len(base), np.bool_)
    varying[rows[paired]] = base.size[rows[paired]] != other.size[paired]
    absent = len(base) - len(paired)
    explanation = (
        f"iterations {base.index} and {other.index} have one structure: {int(varying.sum())} of "
        f"{len(base)} requests differ in size, {absent} are absent; first, {difference}"
    )
    return Match("fit", base, other, rows, varying, explanation)


def _convincing(base: Iteration, other: Iteration, rows: NDArray[np.int64]) -> bool:
    """Whether a pairing shows one structure at two shapes rather than two networks.

    The rule:

    1. at least nine in ten requests of the shorter iteration are paired, and it has at least half
       as many as the longer one (an evaluation inside of a training step has fewer);
    2. and either half of the pairs have equal sizes (gradients, optimizer temporaries),
    3. or an eighth have, and the others change in an orderly way: nine in ten in one direction, and
       three quarters by one of four ratios (two networks change by as many ratios as layers).

    Measured on the demo networks: one network at two shapes has 53 to 89 % equal pairs and all of
    the others by four ratios in one direction; two networks cut to the same number of requests have
    at most 25 % equal pairs, and at most 65 % of the others by four ratios, in both directions.
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
    ratio = after[changed] / before[changed]
    grown = float(np.mean(ratio > 1))
    _, counts = np.unique(np.round(ratio, 2), return_counts=True)
    laws = int(np.sort(counts)[-4:].sum())
    return (grown <= 0.1 or grown >= 0.9) and 4 * laws >= 3 * len(ratio)


def _first_difference(first: Iteration, second: Iteration) -> str:
    """The first request that differs, in plain words."""
    shared = min(len(first), len(second))
    sizes = first.size[:shared] != second.size[:shared]
    differ = np.flatnonzero(sizes | (first.stream[:shared] != second.stream[:shared]))
    if not differ.size:
        return (
            f"iteration {first.index} issues {len(first)} requests, "
            f"iteration {second.index} issues {len(second)}"
        )
    at = int(differ[0])
    if not sizes[at]:
        return (
            f"request {at} is on stream {first.stream[at]} in iteration {first.index}, "
            f"on stream {second.stream[at]} in iteration {second.index}"
        )
    before, after = _two_sizes((int(first.size[at]), int(second.size[at])))
    return (
        f"request {at} asks for {before} in iteration {first.index}, "
        f"{after} in iteration {second.index}"
    )


def _two_sizes(sizes: Iterable[int]) -> list[str]:
    """Prints sizes so that unequal ones look unequal."""
    sizes = list(sizes)
    texts = [format_bytes(size) for size in sizes]
    return texts if len(set(texts)) == len(set(sizes)) else [f"{size} B" for size in sizes]
