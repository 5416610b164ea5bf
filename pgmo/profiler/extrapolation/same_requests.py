"""Which requests of a program at one size are those of the same program at another.

    batch=8   a w b c d e      w: a workspace that kernels take at some sizes only
    batch=4   a   b d c e      pairs by operator, size and lifetime; two have changed places
    counterpart  0 - 1 3 2 4

A dynamic program over both sequences (Needleman and Wunsch 1970, with free gaps) finds the pairing
with the highest score. It stays in a band around the diagonal: profiles that lie further apart are
of two programs. What has changed places is paired afterwards, among neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.extrapolation.size_laws import Point
from pgmo.profiler.profile import NEVER, Profile

Scalar = TypeVar("Scalar", bound=np.generic)

ABSENT = -1
"""In the place of a row: the other profile has no such request."""

_BAND, _LEAST_BAND, _MOST_BAND = 0.15, 48, 4096
"""Requests by which the two may be out of step: a share of all, and its limits."""

_NEAR = 8
"""Requests within which two threads change places, and within which lives are about the same."""

_ORIGIN, _OPERATOR, _UNKNOWN, _STRANGE = 8, 5, 4, 1
_EXACT, _PLAUSIBLE, _LIFE = 3, 2, 1
"""Scores of a pair: of its origins, and on top of that of its sizes and of its lifetimes."""

_PAIR, _NEXT_ROW, _NEXT = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Counterparts:
    """The pairs of two profiles.

    Args:
        row: for each row of the reference that of the other one, or `ABSENT`, shape (n,).
        confused: rows whose origin is another one there, though size and lifetime agree, shape
            (n,).
        clock: for each tick of the other one, and its end, the tick of the reference at which a
            block that is gone there is gone at the earliest, shape (ticks + 1,).
        ticks: of the reference.
    """

    row: NDArray[np.int64]
    confused: NDArray[np.bool_]
    clock: NDArray[np.int64]
    ticks: int

    def of(self, column: NDArray[Scalar]) -> NDArray[Scalar]:
        """The other profile's values by the reference's rows, shape (n,); 0 where there is none.

        Example:
            >>> profile = Profile.from_columns(size=[8, 4], start=[0, 1], end=[3, -1], ticks=2)
            >>> counterparts(profile, (4,), profile, (2,)).of(profile.size).tolist()
            [8, 4]
        """
        present = self.row != ABSENT
        values = np.zeros(len(self.row), column.dtype)
        values[present] = column[self.row[present]]
        return values

    def ends(self, other: Profile) -> NDArray[np.int64]:
        """Ends of the other profile's blocks by the reference's clock; 0 where there is none.

        Example:
            >>> profile = Profile.from_columns(size=[8, 4], start=[0, 1], end=[3, -1], ticks=2)
            >>> counterparts(profile, (4,), profile, (2,)).ends(profile).tolist()
            [3, -1]
        """
        end = self.of(other.end)
        turns, within = np.divmod(end, max(1, other.ticks))
        return np.where(end == NEVER, NEVER, turns * self.ticks + self.clock[within])


def counterparts(
    reference: Profile, point: Point, other: Profile, other_point: Point
) -> Counterparts:
    """Pairs the requests of two profiles.

    Args:
        reference: whose requests get counterparts.
        point: values of the parameters there.
        other: among whose requests they are sought.
        other_point: values of the parameters there.

    Example:
        >>> large = Profile.from_columns(
        ...     size=[64, 99, 80, 16], start=range(4), end=[4, 2, 4, 4], ticks=4
        ... )
        >>> small = Profile.from_columns(size=[64, 40, 16], start=range(3), end=[3, 3, 3], ticks=3)
        >>> counterparts(large, (4,), small, (2,)).row.tolist()
        [0, -1, 1, 2]
    """
    scores = _Scores(reference, point, other, other_point)
    if scores.same_origins:
        row = np.arange(len(reference))
    else:
        row = _best_pairs(scores, len(reference), len(other))
    clock = _clock(row, reference, other)
    row = _with_swapped(row, scores)
    confused = np.zeros(len(row), np.bool_)
    paired = np.flatnonzero(row != ABSENT)
    here, there = scores.origin[0][paired], scores.origin[1][row[paired]]
    confused[paired] = (here >= 0) & (there >= 0) & (here != there)
    return Counterparts(row, confused, clock, reference.ticks)


def origins(profile: Profile) -> list[tuple[str, str, str] | None]:
    """Module, operator and phase of each row; None where they are not known.

    Example:
        >>> origins(Profile.from_columns(size=[8], start=[0], end=[1], ticks=1))
        [None]
    """
    keys = [(tag.module, tag.op, tag.phase) for tag in profile.tags]
    return [keys[tag] if tag >= 0 else None for tag in profile.tag.tolist()]


class _Scores:
    """How well any request of one profile goes with any of the other."""

    def __init__(self, a: Profile, point: Point, b: Profile, other_point: Point) -> None:
        first, second = origins(a), origins(b)
        self.origin = _numbered(first, second)
        operators = [
            [origin and (origin[1], origin[2]) for origin in one] for one in (first, second)
        ]
        self.operator = _numbered(*operators)
        self.size = a.size.astype(np.float64), b.size.astype(np.float64)
        self.stream = a.stream, b.stream
        lives = [np.where(one.end == NEVER, -(2**40), one.end - one.start) for one in (a, b)]
        self.life = lives[0], lives[1]
        self.same_origins = (
            np.array_equal(*self.origin)
            and np.array_equal(*self.stream)
            and a.ticks == b.ticks
            and bool(np.all(self.origin[0] >= 0))
        )
        # What sizes of tensors grow by between the two points: products of the parameters, which
        # squares of lengths and paddings lead away from.
        factors = [there / here for here, there in zip(point, other_point, strict=True)]
        powers = product(range(2), repeat=len(factors))
        self.ratios = np.unique(
            [prod(f**p for f, p in zip(factors, power, strict=True)) for power in powers]
        )
        self.least, self.most = self.ratios[0] ** 2, self.ratios[-1] ** 2

    def of(self, i: int, left: int, right: int) -> NDArray[np.int32]:
        """Of request `i` with those of the other one from `left` to before `right`; 0: never."""
        known, wanted = self.origin[1][left:right], int(self.origin[0][i])
        score = np.zeros(right - left, np.int32)
        if wanted < 0:
            score[:] = _UNKNOWN
        else:
            score[self.operator[1][left:right] == self.operator[0][i]] = _OPERATOR
            score[known == wanted] = _ORIGIN
            score[known < 0] = _UNKNOWN
        ratio = self.size[1][left:right] / self.size[0][i]
        exact = np.zeros(right - left, np.bool_)
        for common in self.ratios:
            exact |= np.abs(ratio - common) < 1e-9
        plausible = (ratio >= self.least) & (ratio <= self.most)
        alike = np.abs(self.life[1][left:right] - self.life[0][i]) <= _NEAR
        # Origins come from an iteration that was slowed down to see them, and now and then
        # neighbours are confused there.
        confused = (score == 0) & exact & alike
        blind = (score == _UNKNOWN) & ~plausible
        score += np.where(exact, _EXACT, np.where(plausible, _PLAUSIBLE, 0)) * (score > 0)
        score += _LIFE * alike * (score > 0)
        score[confused] = _STRANGE
        score[blind | (self.stream[1][left:right] != self.stream[0][i])] = 0
        return score


def _numbered(
    first: Sequence[tuple[str, ...] | None], second: Sequence[tuple[str, ...] | None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each distinct key, -1 for None."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys((*first, *second)))}
    numbers[None] = -1
    return (
        np.array([numbers[key] for key in first], np.int64),
        np.array([numbers[key] for key in second], np.int64),
    )


def _best_pairs(scores: _Scores, n: int, m: int) -> NDArray[np.int64]:
    """The increasing pairs of the highest total score, within the band; `ABSENT` elsewhere.

    From the end to the beginning, so that of equally good pairings the first one in the sequence
    is found: `best[j]` is that of all from `i` on with all from `j` on.
    """
    row = np.full(n, ABSENT, np.int64)
    if not n or not m:
        return row
    wide = max(_LEAST_BAND, min(_MOST_BAND, int(_BAND * max(n, m)) + abs(n - m)))
    centre = np.arange(n) * m // n
    low, high = np.maximum(0, centre - wide), np.minimum(m, centre + wide + 1)
    moves = np.empty((n, int((high - low).max())), np.uint8)
    best = np.zeros(m + 1, np.int32)
    reached = m
    for i in range(n - 1, -1, -1):
        left, right = int(low[i]), int(high[i])
        best[left:reached] = best[reached]
        reached = left
        score = scores.of(i, left, right)
        down, diagonal = best[left:right].copy(), best[left + 1 : right + 1] + score
        diagonal[score == 0] = -1
        found = np.maximum(down, diagonal)
        found[-1] = max(found[-1], best[right])
        # Gaps are free, so the best of "leave one out" is a running maximum of the row.
        found = np.maximum.accumulate(found[::-1])[::-1]
        move = np.where(diagonal == found, _PAIR, np.where(down == found, _NEXT_ROW, _NEXT))
        moves[i, : right - left] = move
        best[left:right] = found
    i = j = 0
    while i < n and j < m:
        j = max(j, int(low[i]))
        step = int(moves[i, j - low[i]]) if j < high[i] else _NEXT_ROW
        if step == _PAIR:
            row[i] = j
        i, j = i + (step != _NEXT), j + (step != _NEXT_ROW)
    return row


def _with_swapped(row: NDArray[np.int64], scores: _Scores) -> NDArray[np.int64]:
    """Pairs what is left over with what is left over close by: two threads change places."""
    row = row.copy()
    free = np.ones(len(scores.size[1]), np.bool_)
    free[row[row != ABSENT]] = False
    places = np.maximum.accumulate(np.append(ABSENT, row)) + 1
    for i in np.flatnonzero(row == ABSENT).tolist():
        place = int(places[i])
        left, right = max(0, place - _NEAR), min(len(free), place + _NEAR)
        if left >= right:
            continue
        score = np.where(free[left:right], scores.of(i, left, right), 0)
        at = int(np.argmax(score))
        if score[at] >= _ORIGIN + _PLAUSIBLE:
            row[i] = left + at
            free[left + at] = False
    return row


def _clock(row: NDArray[np.int64], reference: Profile, other: Profile) -> NDArray[np.int64]:
    """See `Counterparts.clock`: behind the last request before it that both have."""
    clock = np.zeros(other.ticks + 1, np.int64)
    paired = row != ABSENT
    clock[other.start[row[paired]] + 1] = reference.start[paired] + 1
    return np.maximum.accumulate(clock)
