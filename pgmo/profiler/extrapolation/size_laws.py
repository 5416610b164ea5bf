"""How the size of one request follows from a batch size, a length, or both.

    batch         2     4     8           64
    size        800  1600  3200   exact   25600   400 batch, checked by the third point
    workspace   148   287   562   upper    4439   no such law: the last slope, and a margin
    workspace   320   320 12800   upper   12800   steps: of threads and blocks, which do not grow on

A law is a sum of a few products of the parameters, each to the power of 2 at most. The one with the
fewest terms that gives every recorded size, in exact arithmetic, is it. Fewer terms than profiles
means that it has been checked by those to spare.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil, prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Point = tuple[int, ...]
"""Values of the parameters, in the order of their names."""

Kind = Literal["constant", "affine", "quadratic", "upper"]

_MOST_TERMS = 3
_POWER = 2  # attention has squares of lengths; nothing common has cubes

_BENDS = Fraction(1, 8)
"""Share of the largest size that squares have in a law that no further profile has checked."""


@dataclass(frozen=True)
class Polynomial:
    """A law that gives every recorded size exactly.

    Args:
        powers: for each term the power of each parameter.
        factors: bytes, one for each term.
        checked: whether there were more recorded sizes than terms.

    Example:
        >>> Polynomial(((0,), (1,)), (Fraction(8), Fraction(4)), True).at((16,))
        72
    """

    powers: tuple[Point, ...]
    factors: tuple[Fraction, ...]
    checked: bool

    @property
    def kind(self) -> Kind:
        """Constant, affine (in each parameter alone), or quadratic."""
        highest = max((max(term) for term in self.powers), default=0)
        return ("constant", "affine", "quadratic")[highest]

    def at(self, point: Point) -> int:
        """Bytes of the request there, rounded up to a whole number."""
        terms = zip(self.factors, self.powers, strict=True)
        return ceil(
            sum((factor * _monomial(powers, point) for factor, powers in terms), Fraction())
        )


@dataclass(frozen=True)
class Upper:
    """An estimate from above, for sizes that follow no law: workspaces, blocks of odd paddings.

    Up to the largest recorded point it is the size at the next larger one. Beyond, it grows like
    between the two largest, and by as much more as the slope rose there, or by half of what it
    fell: parts of a workspace are rounded up, each by itself. Where it grew no more, it stays, and
    so it does where it has steps.

    Args:
        powers: of the product that the size grows with most evenly.
        known: that product and the size, at each recorded point, in ascending order.
        stepped: whether the size goes in steps, and so is never more than the largest.

    Example:
        >>> Upper((1,), ((2, 148), (4, 287), (8, 562))).at((16,))
        1115
    """

    powers: Point
    known: tuple[tuple[int, int], ...]
    stepped: bool = False
    checked: bool = False

    @property
    def kind(self) -> Kind:
        """Always "upper"."""
        return "upper"

    def at(self, point: Point) -> int:
        """Bytes that the request will hardly exceed there."""
        place = _monomial(self.powers, point)
        largest = max(size for _, size in self.known)
        last = self.known[-1][0]
        if place <= last:
            above = min(at for at, _ in self.known if at >= place)
            return max(size for at, size in self.known if at <= above)
        if self.stepped:
            return largest
        slopes = _slopes(self.known)
        slope = slopes[-1]
        if slope and len(slopes) > 1:
            slope += max(slopes[-1] - slopes[-2], (max(slopes) - min(slopes)) / 2)
        return max(largest, ceil(self.known[-1][1] + slope * (place - last)))


SizeLaw = Polynomial | Upper
"""Gives the bytes of a request at any point."""


def fit(
    points: Sequence[Point], sizes: NDArray[np.int64], *, threads: bool = False
) -> list[tuple[SizeLaw, ...]]:
    """Finds the law of each row of sizes.

    Args:
        points: where they were recorded, no two the same.
        sizes: bytes, shape (rows, len(points)).
        threads: whether kernels run in a fixed number of threads, as on a CPU.

    Returns:
        For each row the simplest laws, as a rule one; several where the points cannot tell them
        apart.

    Example:
        >>> laws = fit([(2,), (4,), (8,)], np.array([[8, 8, 8], [12, 20, 36], [4, 16, 64]]))
        >>> [(law.kind, law.at((64,))) for law, in laws]
        [('constant', 8), ('affine', 260), ('quadratic', 4096)]
    """
    found: list[list[SizeLaw]] = [[] for _ in range(len(sizes))]
    open_rows = np.arange(len(sizes))
    terms = _terms(points)
    for count in range(1, min(_MOST_TERMS, len(points)) + 1):
        for powers in combinations(terms, count):
            for row in _roughly(points, powers, sizes, open_rows):
                law = _exact(points, powers, [int(size) for size in sizes[row]])
                if law is not None:
                    found[row].append(law)
        open_rows = np.array([row for row in open_rows if not found[row]], np.int64)
        if not len(open_rows):
            break
    for row in open_rows:
        found[row].append(_upper(points, terms, [int(size) for size in sizes[row]], threads))
    return [tuple(laws) for laws in found]


def _terms(points: Sequence[Point]) -> list[Point]:
    """The products that these points can tell apart: two values of a parameter show no square."""
    highest = [min(_POWER, len(set(values)) - 1) for values in zip(*points, strict=True)]
    every = product(*(range(power + 1) for power in highest))
    return sorted(every, key=lambda powers: (max(powers), sum(powers), powers))


def _roughly(
    points: Sequence[Point],
    powers: Sequence[Point],
    sizes: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The rows that these terms fit up to rounding errors; the few left are tried exactly."""
    matrix = np.array([[float(_monomial(term, at)) for term in powers] for at in points])
    scale = matrix.max(axis=0)
    matrix /= scale
    if np.linalg.matrix_rank(matrix) < len(powers):
        return rows[:0]
    wanted = sizes[rows].T.astype(np.float64)
    factors = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    off = np.abs(matrix @ factors - wanted).max(axis=0)
    near: NDArray[np.bool_] = off <= 1e-9 * wanted.max(axis=0) + 1e-6
    return rows[near]


def _exact(points: Sequence[Point], powers: tuple[Point, ...], sizes: list[int]) -> SizeLaw | None:
    """The law with these terms, if it gives all sizes and is one that a tensor could have."""
    rows = [[Fraction(_monomial(term, at)) for term in powers] for at in points]
    factors = _solve(rows, [Fraction(size) for size in sizes])
    if factors is None or any(
        sum((a * b for a, b in zip(row, factors, strict=True)), Fraction()) != size
        for row, size in zip(rows, sizes, strict=True)
    ):
        return None
    if any(not factor for factor in factors):
        return None  # a simpler one
    checked = len(powers) < len(points)
    plain = all(sum(term) <= 1 for term in powers)
    # Any three sizes lie on a parabola. That of a tensor has bytes for factors; that of a workspace
    # which was rounded up here and there does not, and would lead far astray.
    whole = all(factor.denominator == 1 and factor > 0 for factor in factors)
    curved = not checked and not plain
    if not whole and (curved or not plain):
        return None
    grows = all(f > 0 for f, term in zip(factors, powers, strict=True) if any(term))
    if not checked and not grows:
        return None  # a workspace of another kernel: it may not shrink on
    if curved and _bend(powers, factors, points[-1]) < sizes[-1] * _BENDS:
        return None
    return Polynomial(powers, tuple(factors), checked)


def _bend(powers: Sequence[Point], factors: Sequence[Fraction], at: Point) -> Fraction:
    """Bytes there of the terms that are no straight lines."""
    terms = zip(factors, powers, strict=True)
    return sum((f * _monomial(term, at) for f, term in terms if sum(term) > 1), Fraction())


def _solve(rows: list[list[Fraction]], sizes: list[Fraction]) -> list[Fraction] | None:
    """Gaussian elimination in exact arithmetic, of the first independent rows."""
    count = len(rows[0])
    work = [[*row, size] for row, size in zip(rows, sizes, strict=True)]
    for column in range(count):
        pivot = next((i for i in range(column, len(work)) if work[i][column]), None)
        if pivot is None:
            return None
        work[column], work[pivot] = work[pivot], work[column]
        head = [value / work[column][column] for value in work[column]]
        work = [
            head if i == column else [a - row[column] * b for a, b in zip(row, head, strict=True)]
            for i, row in enumerate(work)
        ]
    return [row[-1] for row in work[:count]]


def _upper(points: Sequence[Point], terms: list[Point], sizes: list[int], threads: bool) -> Upper:
    """The estimate over the product with which the size grows most evenly."""
    best: tuple[float, Upper] | None = None
    for powers in terms:
        at: dict[int, int] = {}
        spread = 0  # of sizes at which the product is the same: it is not what they depend on
        for point, size in zip(points, sizes, strict=True):
            place = _monomial(powers, point)
            spread = max(spread, abs(size - at.get(place, size)))
            at[place] = max(size, at.get(place, 0))
        law = Upper(powers, tuple(sorted(at.items())))
        slopes = _slopes(law.known)
        if not slopes:
            continue
        reach = law.known[-1][0] - law.known[0][0]
        wobble = float(max(slopes) - min(slopes)) * reach + spread * len(points)
        if best is None or wobble < best[0]:
            best = wobble, law
    assert best is not None  # a parameter that never changes is refused before
    return replace(best[1], stepped=threads and _has_steps(best[1].known))


def _has_steps(known: Sequence[tuple[int, int]]) -> bool:
    """Whether a size did not grow with the product between two points, or more than its square.

    A kernel on a CPU divides its work among threads, in blocks that fit a cache, and has a buffer
    for each. More work is divided in another way, or is that of another kernel, from some point on:
    until the next one the buffers are the same. oneDNN's for gradients of convolutions are like
    this, with every set of instructions.
    """
    return any(
        high <= low or Fraction(high, low) > Fraction(right, left) ** _POWER
        for (left, low), (right, high) in pairwise(known)
    )


def _slopes(known: Sequence[tuple[int, int]]) -> list[Fraction]:
    return [Fraction(high - low, right - left) for (left, low), (right, high) in pairwise(known)]


def _monomial(powers: Point, point: Point) -> int:
    return prod(value**power for value, power in zip(point, powers, strict=True))
