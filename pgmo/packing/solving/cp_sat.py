"""Packing of small problems with OR-Tools' CP-SAT, which can prove that an arena is smallest.

    offset                            Each block is a rectangle whose place in time is fixed and
      ^  +---------+                  whose offset is free. NoOverlap2D keeps the rectangles
      |  |    A    |         +---+    apart. A wrapping block is two rectangles, at both ends of
      |--+----+----+    +----+ C |    the circle, with one offset. This is equivalent to the
      |B'| D  |         | B  |   |    circular problem.
      +--+----+---------+----+---+> ticks

To keep numbers small, sizes are divided by their greatest common divisor, and ticks at which no
block begins are left out.
Source of the solver: Perron and Furnon, OR-Tools (developers.google.com/optimization).
"""

import importlib.util
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError
from pgmo.packing.problem import Problem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_LARGEST_AREA = 2**60  # Limit, because CP-SAT adds up areas in 64 bits.
_LOOK = 1000  # Blocks between two checks of the clock.
_POLL = 0.02  # Seconds between two checks for results.

Report = Callable[[float, int, int], None]
"""Type of callbacks at each improvement: seconds since the call, arena and bound in bytes."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Best packing after a search that Ctrl-C may have interrupted; arena and bound in bytes."""

    offset: NDArray[np.int64]
    arena: int
    bound: int
    interrupted: bool


def is_installed() -> bool:
    """Return whether OR-Tools is installed, without importing it."""
    return importlib.util.find_spec("ortools") is not None


def require() -> None:
    """Raise OptionError if OR-Tools is missing. The message names the command that installs it."""
    if not is_installed():
        raise OptionError(
            "solver='cp-sat' needs OR-Tools, which is not installed; "
            "run: pip install ortools, or leave the choice to solver='auto'"
        )


def suits(problem: Problem) -> bool:
    """Return whether OR-Tools is installed and `check` would accept the problem."""
    return is_installed() and _area(problem) <= _LARGEST_AREA


def check(problem: Problem) -> None:
    """Raise OptionError if the sum of areas (size times ticks) could exceed 2**60 units."""
    if _area(problem) > _LARGEST_AREA:
        size = problem.aligned
        unit = int(np.gcd.reduce(size))
        raise OptionError(
            f"solver='cp-sat' cannot count {int(size.sum()) // unit} units of {unit} bytes times "
            f"{len(np.unique(problem.lower))} ticks, which is more than 2**60; use "
            "solver='branch-and-bound' or 'search'"
        )


def _area(problem: Problem) -> int:
    """Return the number of starts times the sum of sizes, in units of the sizes' common divisor."""
    if not len(problem):
        return 0
    size = problem.aligned
    ticks = len(np.unique(problem.lower))
    return int(size.sum()) // int(np.gcd.reduce(size)) * ticks


def solve(
    problem: Problem,
    offset: NDArray[np.int64],
    bound: int,
    *,
    time_limit: float,
    threads: int = 1,
    seed: int = 0,
    report: Report | None = None,
) -> Solution:
    """Improve a packing until it is proved to be the smallest, or until the time limit or Ctrl-C.

    Results are reproducible only with one worker, and if the search ends before the time limit:
    several workers exchange intermediate results at varying times. Raises OptionError as `require`
    and `check`, and RuntimeError when CP-SAT refuses the model.

    Args:
        problem: the blocks, on a line or a circle.
        offset: a valid packing to start from, shape (m,).
        bound: lower bound on all packings, in bytes.
        time_limit: seconds.
        threads: number of CP-SAT's workers.
        seed: seed of random choices.
        report: called at each improvement, on the calling thread.
    """
    require()
    check(problem)
    if not len(problem):
        return Solution(offset, 0, 0, False)
    return _Run(problem, offset, bound).solve(time_limit, threads, seed, report)


class _Run:
    def __init__(self, problem: Problem, offset: NDArray[np.int64], bound: int) -> None:
        size = problem.aligned
        self._unit = int(np.gcd.reduce(size))
        self._size = size // self._unit
        self._bytes = size
        self._start = offset
        self._floor = -(-bound // self._unit)
        numbered = problem.numbered()
        self._begin, self._end = numbered.lower, numbered.upper
        self._ticks = numbered.period or int(numbered.upper.max())
        self._answers: queue.SimpleQueue[tuple[float, NDArray[np.int64] | None, int]]
        self._answers = queue.SimpleQueue()

    def solve(self, time_limit: float, threads: int, seed: int, report: Report | None) -> Solution:
        from ortools.sat.python import cp_model

        begin = time.perf_counter()
        offset, bound = self._start, self._floor
        arena = self._arena(offset)
        built = self._model(arena, begin + time_limit)
        if built is None:
            return Solution(offset, arena, min(arena, bound * self._unit), False)
        model, places = built
        solver = cp_model.CpSolver()
        left = time_limit - (time.perf_counter() - begin)
        solver.parameters.max_time_in_seconds = max(0.01, left)
        solver.parameters.num_workers = threads
        solver.parameters.random_seed = seed % 2**31
        solver.parameters.catch_sigint_signal = False  # Python's handler must interrupt the wait.

        def on_bound(value: float) -> None:
            # The bound is an integer, but CP-SAT passes a double.
            self._answers.put((time.perf_counter() - begin, None, math.ceil(value - 1e-6)))

        solver.best_bound_callback = on_bound
        statuses: list[Any] = []
        failures: list[BaseException] = []
        begun, given_up = threading.Event(), threading.Event()
        done = threading.Event()  # Thread.join is unreliable after Ctrl-C (bpo-45274).

        def work() -> None:
            begun.set()
            try:
                if not given_up.is_set():
                    statuses.append(
                        solver.solve(model, _callback(cp_model, places, self._answers, begin))
                    )
            except BaseException as error:  # The waiting thread raises the error again.
                failures.append(error)
            finally:
                done.set()

        try:
            threading.Thread(target=work, name="cp-sat", daemon=True).start()
            interrupted = False
            while True:
                try:
                    running = not done.is_set()
                    while not self._answers.empty():
                        seconds, found, proved = self._answers.get()
                        better = found is not None and self._arena(found * self._unit) < arena
                        if found is not None and better:
                            offset = found * self._unit
                            arena = self._arena(offset)
                        higher = bound < proved
                        bound = max(bound, proved)
                        if report is not None and (better or higher):
                            report(seconds, arena, bound * self._unit)
                    if not running:
                        break
                    if interrupted:  # Repeat the call, in case the search has not begun yet.
                        solver.stop_search()
                    done.wait(_POLL)
                except KeyboardInterrupt:
                    interrupted = True
        except BaseException:  # Ctrl-C during the thread's start, or an error of `report`.
            given_up.set()
            while begun.is_set() and not done.wait(_POLL):
                solver.stop_search()
            raise
        if failures:
            raise failures[0]
        status = statuses[0]
        if status == cp_model.OPTIMAL:
            bound = arena // self._unit
        elif status in (cp_model.MODEL_INVALID, cp_model.INFEASIBLE):
            why = model.validate() or "no packing is as small as the given packing"
            raise RuntimeError(f"CP-SAT refuses the model of {len(self._size)} blocks: {why}")
        return Solution(offset, arena, min(arena, bound * self._unit), interrupted)

    def _arena(self, offset: NDArray[np.int64]) -> int:
        return int((offset + self._bytes).max())

    def _model(self, arena: int, deadline: float) -> tuple["cp_model.CpModel", list[Any]] | None:
        """Return CP-SAT's model and its offset variables; None if building exceeds the deadline."""
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        top = arena // self._unit
        peak = model.new_int_var(self._floor, top, "peak")
        places, across, along = [], [], []
        start = self._start // self._unit
        for block, size in enumerate(self._size.tolist()):
            if block % _LOOK == _LOOK - 1 and time.perf_counter() > deadline:
                return None
            place = model.new_int_var(0, top - size, "")
            places.append(place)
            model.add(peak >= place + size)
            model.add_hint(place, int(start[block]))
            along.append(model.new_fixed_size_interval_var(place, size, ""))
            begin, end = int(self._begin[block]), int(self._end[block])
            across.append(
                model.new_fixed_size_interval_var(begin, min(end, self._ticks) - begin, "")
            )
            if end > self._ticks:  # Add the part at the beginning of the circle.
                along.append(model.new_fixed_size_interval_var(place, size, ""))
                across.append(model.new_fixed_size_interval_var(0, end - self._ticks, ""))
        model.add_hint(peak, top)
        model.add_no_overlap_2d(across, along)
        model.minimize(peak)
        return model, places


def _callback(
    cp_model: Any, places: list[Any], answers: "queue.SimpleQueue[Any]", begin: float
) -> Any:
    class Solutions(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            offset = np.array([self.value(place) for place in places], np.int64)
            proved = math.ceil(self.best_objective_bound - 1e-6)
            answers.put((time.perf_counter() - begin, offset, proved))

    return Solutions()
