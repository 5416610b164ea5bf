"""Profile of a job at a batch that was not rehearsed, derived from rehearsed batches.

batch        2     4       16
tensor     800  1600     6400    on a line, or on a parabola (attention)
weight      64    64       64
workspace    -   148      595    only the largest batch has it: proportional, plus a margin
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.plans.plan_set import requests_of
from pgmo.errors import ProfileError
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.profile import CUDA_ALIGNMENT, Profile

Kind = Literal["constant", "linear", "quadratic", "estimated"]

_KINDS: tuple[Kind, ...] = ("constant", "linear", "quadratic", "estimated")

_MOST_UNPAIRED, _MOST_UNPAIRED_BYTES = 0.1, 0.3
"""Maximum share of both profiles' requests, and of the larger profile's bytes, that remain
unpaired. On CUDA, workspaces that depend on the batch are 3 % of a very small GPT's requests and
21 % of its bytes. Between different networks, a third of requests and of bytes is unpaired."""

_MARGIN = Fraction(257, 256)
"""Factor on the size of a request that exists at one batch only. Its size may be rounded to blocks
of threads. The measured rounding was 0.01 %."""

_BEND = Fraction(1, 8)
"""Minimum share of the largest size that the square term of a parabola must have. Below this share
the curvature comes from rounding, and predicts larger batches wrongly."""


class ScaledProfile:
    """Sizes of all requests of a job as functions of the option that varies.

    The requests are those of the profile at the largest value. Each request gets the simplest law
    through all its known sizes, or an estimate if there is none.

    Args:
        values: at least two values of the option, ascending and distinct.
        profiles: profile of the job at each value.

    Raises:
        ProfileError: if too many requests have no counterpart.
    """

    def __init__(self, values: Sequence[int], profiles: Sequence[Profile]) -> None:
        self._largest = profiles[-1]
        sizes = np.stack([_sizes_in(one, self._largest) for one in profiles], axis=1)
        for value, profile, size in zip(values, profiles, sizes.T, strict=True):
            _check_paired(f"{value} and {values[-1]}", profile, self._largest, size > 0)
        distinct, law = np.unique(sizes, axis=0, return_inverse=True)
        self._law = law.reshape(-1)  # NumPy 2.0 returns an array with a second axis
        self._laws = [
            _SizeLaw([(at, one) for at, one in zip(values, row, strict=True) if one])
            for row in distinct.tolist()
        ]
        rounded = not np.any(sizes % CUDA_ALIGNMENT)
        self._unit = CUDA_ALIGNMENT if rounded else 1

    def at(self, value: int) -> Profile:
        """Return the profile at a value; raise `ProfileError` if its sizes are too large."""
        sizes = [-(-law.at(value) // self._unit) * self._unit for law in self._laws]
        return replace(self._largest, size=np.array(sizes, np.int64)[self._law], trace=None)

    @property
    def estimated_share(self) -> float:
        """Share of the bytes at the largest value in requests whose size follows no law."""
        size = self._largest.size
        return float(size[self._kinds == "estimated"].sum() / max(1, size.sum()))

    @property
    def description(self) -> str:
        """Number of requests for each kind of law, as text."""
        counted = Counter(self._kinds.tolist())
        kinds = ", ".join(f"{counted[kind]} {kind}" for kind in _KINDS if counted[kind])
        return f"{len(self._largest)} requests: {kinds}"

    @cached_property
    def _kinds(self) -> NDArray[np.str_]:
        return np.array([law.kind for law in self._laws])[self._law]


def _sizes_in(profile: Profile, largest: Profile) -> NDArray[np.int64]:
    """Return the size in `profile` of each request of `largest`; 0 if `profile` lacks it."""
    rows = align(requests_of(largest), requests_of(profile))
    sizes = np.zeros(len(largest), np.int64)
    sizes[rows[rows != UNPAIRED]] = profile.size[rows != UNPAIRED]
    return sizes


def _check_paired(
    which: str, profile: Profile, largest: Profile, paired: NDArray[np.bool_]
) -> None:
    count = int(paired.sum())
    alone = len(profile) + len(largest) - 2 * count
    total = len(profile) + len(largest)
    missing = float(largest.size[~paired].sum() / max(1, largest.size.sum()))
    if alone > _MOST_UNPAIRED * total or missing > _MOST_UNPAIRED_BYTES:
        raise ProfileError(
            f"of the {len(profile)} and {len(largest)} requests at {which} only {count} "
            f"correspond, with {1 - missing:.0%} of the bytes"
        )


class _SizeLaw:
    """Size of one request at each value, derived from known pairs of value and bytes."""

    def __init__(self, known: Sequence[tuple[int, int]]) -> None:
        self._known = known
        self._factors = _line(known) or _parabola(known)
        """Coefficients in bytes by power of the value, the constant first; None without a law."""

    @property
    def kind(self) -> Kind:
        """Kind of the curve through all known sizes; "estimated" if there is no curve."""
        return "estimated" if self._factors is None else _KINDS[len(self._factors) - 1]

    def at(self, value: int) -> int:
        """Return the bytes at a value, rounded up."""
        if self._factors is None:
            return self._estimate(value)
        size = Fraction(0)
        for power, factor in enumerate(self._factors):
            size += factor * value**power
        return max(1, ceil(size))

    def _estimate(self, value: int) -> int:
        """Return the largest known size up to the next known value; extrapolate beyond the last."""
        if value <= self._known[-1][0]:
            following = min(at for at, _ in self._known if at >= value)
            return max(size for at, size in self._known if at <= following)
        last, size = self._known[-1]
        if len(self._known) == 1:
            return ceil(_MARGIN * size * value / last)
        before, smaller = self._known[-2]
        slope = max(Fraction(size - smaller, last - before), Fraction(0))
        return max(size + ceil(slope * (value - last)), *(size for _, size in self._known))


def _line(known: Sequence[tuple[int, int]]) -> tuple[Fraction, ...] | None:
    """Return the coefficients of a rising or level line through all points, or None."""
    if len(known) < 2:
        return None
    (first, size), (last, largest) = known[0], known[-1]
    slope = Fraction(largest - size, last - first)
    if slope < 0 or any(slope * (at - first) != one - size for at, one in known):
        return None
    return (size - slope * first, slope) if slope else (Fraction(size),)


def _parabola(known: Sequence[tuple[int, int]]) -> tuple[Fraction, ...] | None:
    """Return the coefficients of a plausible parabola through all points; None without one."""
    if len(known) < 3:
        return None
    (a, first), (b, second), (c, third) = known[-3:]
    slope = Fraction(second - first, b - a)
    square = (Fraction(third - second, c - b) - slope) / (c - a)
    factors = (first - slope * a + square * a * b, slope - square * (a + b), square)
    if any(one < 0 or one.denominator != 1 for one in factors) or square * c * c < _BEND * third:
        return None
    if any(sum(one * at**power for power, one in enumerate(factors)) != s for at, s in known):
        return None
    return factors
