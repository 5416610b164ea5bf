"""Growth: live memory that rises from iteration to iteration.

least live bytes of each span    10  11  12  13  14  15  16  17     grows
                                 10  13  15  15  15  15  15  15     a cache that has filled up
                                 10  12  10  12  10  12  10  12     batches of different lengths
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.units import format_bytes

FEWEST_SPANS = 8
"""Minimum number of spans to compare. Fewer spans may rise by chance or during warm-up."""

MANY_RISES = 11
"""From this number of changes between spans on, a quarter of the changes need not be rises, because
Python's garbage collector sometimes frees cycles. Among fewer changes, each must be a rise."""

SKIPPED = 2
"""Minimum number of iterations skipped at the beginning, which allocate optimizer state and caches.
At least one span is skipped."""

LEAST_GROWTH = 8 << 20
"""Minimum total growth that is reported, in bytes."""

STEADY = 0.5
"""Minimum ratio of the growth rates in the two halves of the spans, the slower to the faster."""

SHAPES = 1.5
"""Maximum ratio of the growth of the peak to the growth of the least live bytes. Above it, batches
got longer: they raise the peak several times as much as the blocks that outlive an iteration."""


@dataclass(frozen=True)
class LiveGrowth:
    """Growth of live memory.

    Args:
        rate: bytes per iteration.
        grown: bytes by which live memory grew in the latest `iterations`.
        iterations: number of iterations.
        origin: module or operator with most bytes of staying blocks, in one line; "" if unknown.
        kept: references that keep the blocks that stay, one line each; empty if unknown.
    """

    rate: float
    grown: int
    iterations: int
    origin: str = ""
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f", the largest part requested by {self.origin}" if self.origin else ""
        return (
            f"live memory grows by {format_bytes(round(self.rate))} in each iteration ("
            f"{format_bytes(self.grown)} in the last {self.iterations}){place}"
        )


def find_growth(
    width: int, levels: Sequence[tuple[int, int]], *, least_growth: int = LEAST_GROWTH
) -> LiveGrowth | None:
    """Return the growth of live memory; None without steady growth, or with too few spans.

    Args:
        width: iterations per span.
        levels: for each span, the minimum of the live bytes at the ends of its iterations, and the
            peak of the live bytes up to the end of the span.
        least_growth: minimum total growth that is reported, in bytes.

    Example:
        >>> growing = [(size << 24, size + 9 << 24) for size in range(12)]
        >>> str(find_growth(1, growing))
        'live memory grows by 16.0 MiB in each iteration (144 MiB in the last 9)'
        >>> find_growth(1, [(1 << 30, 2 << 30)] * 12)
    """
    latest = [least for least, _ in levels[-3:]]
    if all(after <= before for before, after in itertools.pairwise(latest)):
        return None  # the growth has stopped
    return _growth(width, levels, least_growth) or _growth(2 * width, _joined(levels), least_growth)


def _joined(levels: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans in pairs, because a rare leak does not show in each short span."""
    pairs = zip(levels[::2], levels[1::2], strict=False)
    return [(min(one[0], two[0]), max(one[1], two[1])) for one, two in pairs]


def _growth(width: int, levels: Sequence[tuple[int, int]], least_growth: int) -> LiveGrowth | None:
    counted = levels[max(1, -(-SKIPPED // width)) :]
    if len(counted) < FEWEST_SPANS:
        return None
    least = [one for one, _ in counted]
    rises = [after - before for before, after in itertools.pairwise(least)]
    grown = least[-1] - least[0]
    if grown < least_growth or not _is_steady(rises):
        return None
    # A newly installed plan may raise the peak once, so compare only the later spans.
    middle = len(rises) // 2
    higher = counted[-1][1] - counted[middle][1]
    if higher > SHAPES * grown * (len(rises) - middle) / len(rises):
        return None
    return LiveGrowth(grown / (len(rises) * width), grown, len(rises) * width)


def _is_steady(rises: Sequence[int]) -> bool:
    """Return whether live memory rises at about the same rate until the end."""
    most_falls = (len(rises) + 1) // 4 if len(rises) >= MANY_RISES else 0
    if sum(rise <= 0 for rise in rises) > most_falls:
        return False
    if 2 * sum(rises) < sum(max(rise, 0) for rise in rises):
        return False
    middle = len(rises) // 2
    halves = sum(rises[:middle]) / middle, sum(rises[middle:]) / (len(rises) - middle)
    return min(halves) >= STEADY * max(halves)


def origin_of_persistent(profile: Profile) -> str:
    """Return the module or operator with most bytes that no iteration frees; "" if unknown."""
    rows = np.flatnonzero(profile.persistent & (profile.tag >= 0))
    if not len(rows):
        return ""
    by_tag = np.bincount(profile.tag[rows], profile.size[rows])
    return str(profile.tags[int(np.argmax(by_tag))])
