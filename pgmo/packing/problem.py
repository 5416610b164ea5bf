"""Input of the packers: sizes and lifetimes of blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgmo.columns import as_column, distinct
from pgmo.errors import ProblemError
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile

_Column = NDArray[np.int64]

MAX_SUM = 2**62
"""Maximum sum of aligned sizes in bytes, so that offsets fit in 63 bits. Above: ProblemError."""


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Blocks that need offsets; all columns have shape (m,) and are read-only.

    Args:
        size: bytes, above 0.
        lower: first tick of the lifetime, from 0.
        upper: first tick after the lifetime. On a circle, `upper` may exceed `period` for a block
            that is also alive at the start of the next iteration.
        period: ticks of one iteration if iterations repeat (time is a circle); 0 if time is a line.
        alignment: bytes; offsets are multiples of it, and sizes are rounded up to multiples.

    Raises:
        ProblemError: when a value is invalid, or the columns differ in length.

    Example:
        >>> Problem([64, 32], [0, 1], [2, 4], period=3)
        Problem(2 blocks, 96 B in all, 1 wrapping in a period of 3 ticks, alignment 1)
    """

    size: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    period: int = 0
    alignment: int = 1

    def __post_init__(self) -> None:
        for name in ("size", "lower", "upper"):
            given = getattr(self, name)
            object.__setattr__(self, name, as_column(name, given, np.int64, ProblemError))
        for name in ("period", "alignment"):
            given = getattr(self, name)
            if isinstance(given, np.integer):
                object.__setattr__(self, name, int(given))
        _check(self)

    @classmethod
    def from_profile(
        cls, profile: "Profile", alignment: int
    ) -> tuple["Problem", NDArray[np.int64]]:
        """Return the problem of placing a profile's blocks, and the row of each entry.

        Persistent and shared blocks have no entry. A block that lives longer than a period has two
        slots, which iterations use alternately. Both slots are reserved all the time, so the block
        gets two entries for the whole period.

        Args:
            profile: the blocks.
            alignment: alignment of offsets in bytes.

        Returns:
            The problem of m entries, and rows of the profile, shape (m,), ascending.

        Example:
            >>> from pgmo.profiler.profile import Profile
            >>> profile = Profile.from_columns(size=[8, 9], start=[0, 1], end=[3, 2], ticks=2)
            >>> problem, rows = Problem.from_profile(profile, alignment=4)
            >>> rows.tolist(), problem.lower.tolist(), problem.upper.tolist()
            ([0, 0, 1], [0, 0, 1], [2, 2, 2])
        """
        rows = np.repeat(np.arange(len(profile), dtype=np.int64), profile.turns)
        twice = profile.turns[rows] == 2
        problem = cls(
            profile.size[rows],
            np.where(twice, 0, profile.start[rows]),
            np.where(twice, profile.ticks, profile.end[rows]),
            period=profile.ticks if profile.circular else 0,
            alignment=alignment,
        )
        return problem, rows

    @property
    def aligned(self) -> NDArray[np.int64]:
        """Sizes rounded up to the alignment, shape (m,)."""
        return -(-self.size // self.alignment) * self.alignment if self.alignment > 1 else self.size

    @property
    def native(self) -> tuple[_Column, _Column, _Column, int, int]:
        """Arguments that pass the problem to native code."""
        return self.size, self.lower, self.upper, self.period, self.alignment

    def part(self, entries: ArrayLike) -> "Problem":
        """Return the problem of the chosen entries.

        Args:
            entries: indices or a mask.

        Example:
            >>> len(Problem([1, 2, 3], [0, 0, 0], [1, 1, 1]).part([0, 2]))
            2
        """
        chosen = np.asarray(entries)
        return Problem(
            self.size[chosen], self.lower[chosen], self.upper[chosen], self.period, self.alignment
        )

    def numbered(self) -> "Problem":
        """Return the same problem without the ticks at which no block begins.

        Both problems have the same packings, because two lifetimes overlap only if one begins
        within the other. In the result, neither a start nor the period exceeds the number of
        blocks.

        Example:
            >>> Problem([8, 8], [1000, 5000], [6000, 9000]).numbered().upper.tolist()
            [2, 2]
        """
        starts = distinct(self.lower)
        wraps = (self.upper > self.period) & (self.period > 0)
        upper = np.searchsorted(starts, np.where(wraps, self.upper - self.period, self.upper))
        return Problem(
            self.size,
            np.searchsorted(starts, self.lower),
            upper + np.where(wraps, len(starts), 0),
            len(starts) if self.period else 0,
            self.alignment,
        )

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        time = "no period"
        if self.period:
            wrapping = int(np.count_nonzero(self.upper > self.period))
            time = f"{wrapping} wrapping in a period of {self.period} ticks"
        total = format_bytes(int(self.size.sum()))
        return f"Problem({len(self)} blocks, {total} in all, {time}, alignment {self.alignment})"


def _check(problem: Problem) -> None:
    size, lower, upper = problem.size, problem.lower, problem.upper
    period, alignment = problem.period, problem.alignment
    if not len(size) == len(lower) == len(upper):
        raise ProblemError(
            f"{len(size)} sizes, {len(lower)} lowers and {len(upper)} uppers; give one of each "
            "for every block"
        )
    if type(alignment) is not int or not 1 <= alignment <= 2**40:
        raise ProblemError(f"the alignment is {alignment!r}; give a whole number from 1 to 2**40")
    if type(period) is not int or not 0 <= period < MAX_SUM:
        raise ProblemError(f"the period is {period!r}; give the ticks of one iteration, or 0")
    _need(size > 0, lambda row: f"size is {size[row]}; it must be above 0")
    _need(lower >= 0, lambda row: f"lower is {lower[row]}; ticks are counted from 0")
    _need(
        upper > lower,
        lambda row: f"upper is {upper[row]}, not above lower, which is {lower[row]}",
    )
    if period:
        _need(
            lower < period,
            lambda row: f"lower is {lower[row]}, not below the period of {period} ticks",
        )
        _need(
            upper - lower <= period,
            lambda row: (
                f"lives {upper[row] - lower[row]} ticks, longer than the period of {period}; "
                "give the block two entries, each for the whole period"
            ),
        )
    _need(size <= MAX_SUM, lambda row: f"size is {size[row]}, more than 2**62 bytes")
    whole = -(-size // alignment) * alignment
    # Sum the high and low 32 bits separately, because the whole sum could overflow.
    if (int((whole >> 32).sum()) << 32) + int((whole & (2**32 - 1)).sum()) > MAX_SUM:
        row = int(np.argmax(size))
        raise ProblemError(
            f"row {row}: size is {size[row]}, the largest; the aligned sizes add up to more than "
            "2**62 bytes; check the unit of the sizes"
        )


def _need(good: NDArray[np.bool_], what: Callable[[int], str]) -> None:
    if not good.all():
        row = int(np.argmin(good))
        raise ProblemError(f"row {row}: {what(row)}")
