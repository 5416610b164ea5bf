"""Censuses during a run, and the choice of the keepers to report.

iteration 6        all live blocks; later growth is measured from here
while it grows     after iterations 10, 15, 22, 33 ...: each is 1.5 times the previous one
the end            after the last line of the program, or at its error

Local variables no longer exist once their function has returned, so earlier censuses are used, too.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgmo.runner.keepers.census import Census, KeptBlock, take_census
from pgmo.runner.keepers.groups import Keeper, find_keepers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgmo.allocator.session.session import Session
    from pgmo.allocator.session.verdict.growth import LiveGrowth
    from pgmo.allocator.session.verdict.summary import Summary

FIRST = 6
"""Iteration after which the first census is taken. Optimizer state and caches exist by then."""

_NEXT = 10
"""Minimum number of iterations after which a session reports growth."""

_FACTOR = 1.5
"""Ratio of the iteration numbers of two censuses, so that a long run takes few censuses."""

_EXPLAINS = 0.5
"""Minimum share of the expected growth that a census must explain. If it explains less, an earlier
or later census is used. Also the minimum bytes of the last census, as a share of the bytes of the
largest census. Below this share, the largest census is reported."""

_LEAST, _MOST = 0.1, 1.5
"""Minimum and maximum ratio of a place's growth to the expected growth. Growth outside of this
range has another cause, such as a forward pass that an error has interrupted."""

_ALONE = 0.2
"""Maximum relative error at which the growth of one place explains the expected growth. If one
place explains it, only this place is reported: other places seem to grow because the first census
found their tensors elsewhere."""

_LARGEST = 5
"""Maximum number of places that are named for live blocks. Smaller places are left out."""


@dataclass(frozen=True)
class TimedCensus:
    """Census, and when it was taken.

    Args:
        iteration: number of iterations before the census.
        census: the census.
        at_end: whether the census was taken after the program's last line, or at its error.
    """

    iteration: int
    census: Census
    at_end: bool = False

    def blocks(self, device: str) -> list[KeptBlock]:
        """Return the blocks of one device."""
        return [one for one in self.census.blocks if one.device == device]

    def size(self, device: str) -> int:
        """Return the bytes of the found blocks of one device."""
        return sum(one.size for one in self.blocks(device))

    def __str__(self) -> str:
        return "at the end" if self.at_end else f"after iteration {self.iteration}"


class WhoKeeps:
    """Censuses of one run.

    Attributes:
        error: the error after which no further census is taken; "" if there was none.
    """

    def __init__(self) -> None:
        self.error = ""
        self._iterations = 0
        self._failed = False
        self._next = _NEXT
        self._taken: list[TimedCensus] = []  # first, latest while it grew, end

    def after_iteration(self, sessions: "Iterable[Session]") -> None:
        """Count an iteration; take a census after iteration `FIRST`, and more if memory grows."""
        self._iterations += 1
        if self._iterations == FIRST:
            self._take()
        elif self._iterations >= self._next:
            self._next = int(self._iterations * _FACTOR)
            if any(session.counted().growth is not None for session in sessions):
                del self._taken[1:]
                self._take()

    def at_end(self, error: BaseException | None = None) -> None:
        """Take the last census.

        Args:
            error: the error that ended the program; None for none.
        """
        self._failed = error is not None
        self._take(error, at_end=True)

    def _take(self, error: BaseException | None = None, *, at_end: bool = False) -> None:
        if self.error:
            return
        try:
            self._taken.append(TimedCensus(self._iterations, take_census(error), at_end))
        except Exception as problem:  # An error here must not end the program.
            self.error = f"keepers were not found: {type(problem).__name__}: {problem}"

    def in_summary(self, summary: "Summary", device: str) -> "Summary":
        """Return a session's summary with the keepers of its device."""
        growth = summary.growth
        if growth is not None:
            growth = replace(growth, kept=self._growing(growth, device))
        return replace(summary, growth=growth, kept=self._largest(device))

    def _growing(self, growth: "LiveGrowth", device: str) -> tuple[str, ...]:
        if len(self._taken) < 2 or self._taken[0].at_end:
            return ()
        first, *later = self._taken
        if not self._failed:  # else the last census has blocks of an incomplete iteration
            later.reverse()
        best: tuple[Keeper, ...] = ()
        for taken in later:
            expected = growth.rate * (taken.iteration - first.iteration)
            found = tuple(
                one
                for one in find_keepers(taken.blocks(device), first.blocks(device))
                if _LEAST * expected <= one.grown <= _MOST * expected
            )
            alone = tuple(one for one in found if abs(one.grown - expected) <= _ALONE * expected)
            found = alone or found
            best = max(best, found, key=lambda some: sum(one.grown for one in some))
            if sum(one.grown for one in best) >= _EXPLAINS * expected:
                break
        return tuple(map(str, best))

    def _largest(self, device: str) -> tuple[str, ...]:
        """Return the places that keep most bytes in the last census, or in a far larger census."""
        if not self._taken:
            return ()
        shown = self._taken[-1]
        most = max(self._taken, key=lambda one: one.size(device))
        if shown.size(device) < _EXPLAINS * most.size(device):
            shown = most
        found = find_keepers(shown.blocks(device), most=_LARGEST)
        return tuple(f"{shown}: {one}" for one in found)
