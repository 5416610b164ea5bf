"""The best packing of one problem while solvers are at work on it."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.lower_bound import least_height, max_load
from pgmo.packing.problem import Problem
from pgmo.packing.solving.result import Incumbent

Observer = Callable[[Incumbent], None]
"""Is told of each better packing and each higher bound."""


class BestKnown:
    """Keeps the smallest arena and the highest bound that any solver has come up with.

    Args:
        problem: the blocks.
        observer: told of each improvement.
        begin: `time.perf_counter()` of the moment from which seconds are counted; now by default.

    Example:
        >>> best = BestKnown(Problem([64, 32], [0, 1], [2, 3]))
        >>> best.offer(np.array([32, 0]), "by hand")
        >>> best.arena, best.bound, best.optimal
        (96, 96, True)
    """

    def __init__(
        self, problem: Problem, observer: Observer | None = None, begin: float | None = None
    ) -> None:
        self.problem = problem
        self.size = problem.aligned
        self.max_load = max_load(problem)
        self.bound = self.max_load
        self.offset: NDArray[np.int64] | None = None
        self.arena = 0
        self.solver = ""
        self.trace: list[Incumbent] = []
        self._observer = observer
        self._begin = time.perf_counter() if begin is None else begin

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._begin

    @property
    def optimal(self) -> bool:
        """Whether nothing is left to be done."""
        return self.offset is not None and self.arena == self.bound

    @property
    def gap(self) -> float:
        """How far the arena may still be above the smallest one: 0.01 is one per cent."""
        return (self.arena - self.bound) / self.bound if self.bound else 0.0

    def offer(self, offset: NDArray[np.int64], solver: str) -> None:
        """Takes the offsets, shape (m,), if they need a smaller arena than the best ones."""
        arena = int((offset + self.size).max(initial=0))
        if self.offset is None or arena < self.arena:
            self.offset, self.arena, self.solver = offset, arena, solver
            self.note(arena, self.bound, solver)

    def prove(self, bound: int, solver: str) -> None:
        """Takes a lower bound, if it is higher than the one known, or what follows from it."""
        if bound > self.bound:
            bound = least_height(self.problem, bound, self.arena)
            self.bound = bound
            self.note(self.arena, bound, solver)

    def note(self, arena: int, bound: int, solver: str, seconds: float | None = None) -> None:
        """Writes to the trace what a solver is known to have, if that is better than before.

        The offsets may come later, with `offer`.
        """
        if self.trace:
            arena = min(arena, self.trace[-1].arena)
            bound = max(bound, self.trace[-1].bound)
            if (arena, bound) == (self.trace[-1].arena, self.trace[-1].bound):
                return
        now = self.seconds if seconds is None else seconds
        self.trace.append(Incumbent(now, arena, bound, solver))
        if self._observer is not None:
            self._observer(self.trace[-1])
