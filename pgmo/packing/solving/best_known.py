"""Best known packing of one problem while solvers run."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.lower_bound import least_height, max_load
from pgmo.packing.problem import Problem
from pgmo.packing.solving.result import Incumbent

Observer = Callable[[Incumbent], None]
"""Type of callbacks for each better packing and each higher bound."""


class BestKnown:
    """Smallest arena and highest bound that any solver has found for a problem.

    `observer` is called at each improvement. Seconds count from `begin`, a value of
    `time.perf_counter()`; by default from the construction.
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
        """Seconds since `begin`."""
        return time.perf_counter() - self._begin

    @property
    def optimal(self) -> bool:
        """Return whether the best packing is proved to be the smallest."""
        return self.offset is not None and self.arena == self.bound

    @property
    def above_bound(self) -> float:
        """Relative excess of the arena over the bound: 0.01 is one per cent; 0.0 for no bound."""
        return (self.arena - self.bound) / self.bound if self.bound else 0.0

    def offer(self, offset: NDArray[np.int64], solver: str) -> None:
        """Accept offsets in bytes, shape (m,), if they are the first or have the smallest arena."""
        arena = int((offset + self.size).max(initial=0))
        if self.offset is None or arena < self.arena:
            self.offset, self.arena, self.solver = offset, arena, solver
            self.note(arena, self.bound, solver)

    def prove(self, bound: int, solver: str) -> None:
        """Accept a lower bound in bytes if it is the highest so far, raised by `least_height`."""
        if bound > self.bound:
            bound = least_height(self.problem, bound, self.arena)
            self.bound = bound
            self.note(self.arena, bound, solver)

    def note(self, arena: int, bound: int, solver: str, seconds: float | None = None) -> None:
        """Add a solver's arena and bound in bytes to the trace if one of them has improved.

        Offsets may follow later, by `offer`. `seconds` counts from `begin`, by default until now.
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
