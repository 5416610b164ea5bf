"""Runs the packers and keeps the best result."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.packer import PACKERS, pack
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.problem import MAX_SUM, Problem

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile

SOLVERS: tuple[str, ...] = ("auto", *PACKERS)
"""What `plan` takes as `solver`: all packers until one is proven optimal, or one of them."""


@dataclass(frozen=True)
class Attempt:
    """One packer's result: the arena in bytes and the seconds that it took."""

    packer: str
    arena: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Packing:
    """The best of several attempts at a problem.

    Args:
        offset: bytes, shape (m,), of the best attempt.
        bound: the problem's max load, in bytes.
        attempts: the packers that ran, in order.
    """

    offset: NDArray[np.int64]
    bound: int
    attempts: tuple[Attempt, ...]

    @property
    def best(self) -> Attempt:
        """The attempt with the smallest arena, the first of equals."""
        return min(self.attempts, key=lambda attempt: attempt.arena)


def search(problem: Problem, *, solver: str = "auto", early_stop: bool = True) -> Packing:
    """Packs a problem with one packer, or with all and keeps the best.

    Args:
        problem: the blocks.
        solver: one of `SOLVERS`.
        early_stop: leave out the remaining packers once the lower bound is met.

    Raises:
        OptionError: when there is no such solver.

    Example:
        >>> packing = search(Problem([64, 32, 64], [0, 1, 2], [2, 3, 3]))
        >>> packing.best.arena, packing.bound, [attempt.packer for attempt in packing.attempts]
        (96, 96, ['best-fit'])
    """
    if solver not in SOLVERS:
        raise OptionError(f"no solver is called {solver!r}; choose one of {', '.join(SOLVERS)}")
    size = -(-problem.size // problem.alignment) * problem.alignment
    bound = max_load(problem)
    attempts: list[Attempt] = []
    best = np.zeros(0, np.int64)
    smallest = MAX_SUM  # no packing of a valid problem needs more
    for packer in PACKERS if solver == "auto" else (solver,):
        begin = time.perf_counter()
        offset = pack(problem, packer)
        seconds = time.perf_counter() - begin
        arena = int((offset + size).max(initial=0))
        attempts.append(Attempt(packer, arena, seconds))
        if arena < smallest:
            best, smallest = offset, arena
        if early_stop and smallest == bound:
            break
    return Packing(best, bound, tuple(attempts))


def plan(profile: "Profile", *, solver: str = "auto", alignment: int = 64) -> Plan:
    """Computes an offset for every block of a profile but the persistent and the shared ones.

    Each stream gets a range of the arena of its own: blocks of different streams are not ordered
    in time, whatever their ticks say.

    Args:
        profile: what an iteration allocates.
        solver: "auto" tries all packers until one meets the lower bound and keeps the best
            result; or the name of one packer (`pgmo.packing.portfolio.SOLVERS`).
        alignment: offsets are multiples of it, in bytes: 64 for CPU memory, 512 for CUDA.

    Returns:
        The plan; `plan.gap` says how far it is above the max load.

    Raises:
        OptionError: when there is no such solver.
        ProblemError: when the alignment is not a positive whole number.

    Example:
        >>> from pgmo.profiler.profile import Profile
        >>> profile = Profile.from_columns(
        ...     size=[64, 32, 64], start=[0, 1, 2], end=[2, 3, 3], ticks=3
        ... )
        >>> plan(profile).offset.tolist()
        [0, 64, 0]
    """
    begin = time.perf_counter()
    problem, rows = Problem.from_profile(profile, alignment)
    stream = profile.stream[rows]
    place = np.zeros(len(problem), np.int64)
    arena = bound = 0
    solvers: list[str] = []
    for key in np.unique(stream) if len(problem) else profile.stream[:0]:
        mine = stream == key
        packing = search(problem.part(mine), solver=solver)
        place[mine] = packing.offset + arena
        arena += packing.best.arena
        bound += packing.bound
        if packing.best.packer not in solvers:
            solvers.append(packing.best.packer)
    if not solvers:
        search(problem, solver=solver)  # refuses unknown names for empty profiles, too
        solvers = [solver]
    offset = np.full(len(profile), UNPLANNED, np.int64)
    alternate = offset.copy()
    # Rows are ascending: the first entry of a row is its slot, a second one its alternate.
    second = np.zeros(len(rows), bool)
    second[1:] = rows[1:] == rows[:-1]
    offset[rows[~second]] = place[~second]
    alternate[rows[second]] = place[second]
    return Plan(
        size=profile.size,
        start=profile.start,
        end=profile.end,
        stream=profile.stream,
        varying=profile.varying,
        shared=profile.shared,
        offset=offset,
        alternate=alternate,
        arena=arena,
        max_load=profile.max_load(alignment),
        optimal=arena == bound,
        solver="+".join(solvers),
        alignment=alignment,
        ticks=profile.ticks,
        circular=profile.circular,
        fingerprint=profile.fingerprint,
        seconds=time.perf_counter() - begin,
        meta=profile.meta,
    )
