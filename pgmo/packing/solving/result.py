"""Result of a solved problem: offsets, proved bound and trace."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.problem import Problem
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan


@dataclass(frozen=True)
class Incumbent:
    """State of a search when its best packing or its lower bound has improved.

    Args:
        seconds: seconds since planning began.
        arena: bytes of the best packing so far.
        bound: lower bound on all packings proved so far, in bytes.
        solver: the packer or solver that made the improvement.

    Example:
        >>> Incumbent(0.25, arena=110, bound=100, solver="best-fit").above_bound
        0.1
    """

    seconds: float
    arena: int
    bound: int
    solver: str

    @property
    def above_bound(self) -> float:
        """Relative excess of the arena over the bound: 0.01 is one per cent."""
        return (self.arena - self.bound) / self.bound if self.bound else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Packing:
    """Offsets of all blocks of a problem, with the arena and its proved bound.

    Args:
        problem: the blocks.
        offset: bytes, shape (m,), multiples of the problem's alignment.
        arena: the largest `offset + aligned size`, in bytes.
        max_load: the largest sum of aligned sizes alive at one tick, in bytes.
        bound: proved lower bound on all packings, in bytes: `max_load` or more.
        solver: the packer or solver that found the packing.
        seconds: duration of the solving in seconds.
        trace: the first packing, then each smaller packing and each higher bound, in order.
        interrupted: whether Ctrl-C ended the search early.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> plan(Problem([64, 32, 64], [0, 1, 2], [2, 3, 3]))
        Packing(3 blocks in 96 B, max load 96 B, gap 0.00 %, optimal, by best-fit)
    """

    problem: Problem
    offset: NDArray[np.int64]
    arena: int
    max_load: int
    bound: int
    solver: str
    seconds: float
    trace: tuple[Incumbent, ...] = ()
    interrupted: bool = False

    @property
    def optimal(self) -> bool:
        """Return whether it is proved that no packing is smaller."""
        return self.arena == self.bound

    @property
    def gap(self) -> float:
        """Relative excess of the arena over the max load: 0.01 is one per cent; 0.0 when empty."""
        return self.arena / self.max_load - 1 if self.max_load else 0.0

    def as_plan(self) -> "Plan":
        """Return the packing as a plan, which can be saved and shown.

        The plan's rows are the problem's blocks. If there are too many ticks for the number of
        blocks, ticks at which no block begins are removed.

        Raises:
            ProfileError: when a size, the sum of sizes or the ticks are too large for a profile.

        Example:
            >>> from pgmo.packing.planner import plan
            >>> plan(Problem([64, 32, 64], [0, 1, 2], [2, 3, 3])).as_plan().arena
            96
        """
        from pgmo.packing.plan import UNPLANNED, Plan
        from pgmo.profiler.profile import Profile

        problem = self.problem
        if _ticks(problem) > 1024 * (len(problem) + 1024):  # The limit of file readers.
            problem = problem.numbered()
        profile = Profile.from_columns(
            size=problem.size,
            start=problem.lower,
            end=problem.upper,
            ticks=_ticks(problem),
            circular=problem.period > 0,
        )
        return Plan.of(
            profile,
            offset=self.offset,
            alternate=np.full(len(profile), UNPLANNED, np.int64),
            arena=self.arena,
            max_load=self.max_load,
            optimal=self.optimal,
            solver=self.solver,
            alignment=problem.alignment,
            seconds=self.seconds,
            bound=self.bound,
            trace=self.trace,
            interrupted=self.interrupted,
        )

    def __len__(self) -> int:
        return len(self.offset)

    def __repr__(self) -> str:
        return (
            f"Packing({len(self)} blocks in {format_bytes(self.arena)}, max load "
            f"{format_bytes(self.max_load)}, gap {100 * self.gap:.2f} %, "
            f"{'optimal, ' if self.optimal else ''}by {self.solver})"
        )


def _ticks(problem: Problem) -> int:
    return problem.period or int(problem.upper.max(initial=0))
