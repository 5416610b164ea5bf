"""Runs the chosen solvers on one problem or on several."""

from collections.abc import Iterator, Sequence

from pgmo.packing.planning_options import PlanningOptions
from pgmo.packing.problem import Problem
from pgmo.packing.solving.best_known import BestKnown, Observer
from pgmo.packing.solving.improver import IMPROVERS, improve
from pgmo.packing.solving.packer import PACKERS, attempt
from pgmo.packing.solving.result import Incumbent
from pgmo.packing.solving.stages import schedule

_MANY = 50_000  # Above this number of blocks, only `_FEW` packers run.
_FEW = 2  # Number of packers that achieve nearly all of the gain.
_COSTLY = 1000  # From this number of blocks on, each packer takes milliseconds.
# With effort "fast" and from `_COSTLY` blocks on, no more packers run if the arena is at most this
# share above the bound.
_NEAR_ENOUGH = 1 / 4096


class Portfolio:
    """Solvers to run, with their number of threads and time limit."""

    def __init__(self, options: PlanningOptions) -> None:
        self._solver, self._effort = options.solver, options.effort
        self._time_limit = float(options.time_limit)
        self._threads, self._seed = options.thread_count, int(options.seed)

    def solve(
        self, problems: Sequence[Problem], begin: float, observer: Observer | None = None
    ) -> tuple[list[BestKnown], tuple[Incumbent, ...], bool]:
        """Pack each problem, then improve each packing, in falling order of the possible gain.

        Raises OptionError as `cp_sat.check`, and KeyboardInterrupt at Ctrl-C without all packings.

        Args:
            problems: one or more problems.
            begin: `time.perf_counter()` from which the time limit counts.
            observer: called with the sums of all arenas and of all bounds.

        Returns:
            The best packing of each problem, the trace of the sums, and whether Ctrl-C was pressed.
        """
        if self._solver == "cp-sat":
            from pgmo.packing.solving import cp_sat

            for problem in problems:
                cp_sat.check(problem)
        total = _Total(observer)
        bests = [BestKnown(problem, total.observe, begin) for problem in problems]
        total.of = bests
        interrupted = False
        try:
            self._pack(bests)
            waiting = [best for best in bests if not best.optimal]
            waiting.sort(key=lambda one: one.bound - one.arena)
            while waiting and not interrupted:
                share = (self._time_limit - waiting[0].seconds) / len(waiting)
                interrupted = self._improve(waiting.pop(0), share)
        except KeyboardInterrupt:
            if any(best.offset is None for best in bests):
                raise
            interrupted = True
        return bests, tuple(total.trace), interrupted

    def _pack(self, bests: Sequence[BestKnown]) -> None:
        """Run the first packer on all problems, then the other packers on improvable packings."""
        turns = [iter(self._packers(len(best.problem))) for best in bests]
        for place in range(len(PACKERS)):
            for best, packers in zip(bests, turns, strict=True):
                left = self._time_limit - best.seconds
                if place and (self._is_enough(best) or left <= 0):
                    continue
                if (packer := next(packers, None)) is None:
                    continue
                offset, interrupted = attempt(best.problem, packer, left)
                best.offer(offset, packer)
                if interrupted:
                    raise KeyboardInterrupt

    def _is_enough(self, best: BestKnown) -> bool:
        costly = self._effort == "fast" and len(best.problem) >= _COSTLY
        return best.above_bound <= (_NEAR_ENOUGH if costly else 0.0)

    def _packers(self, blocks: int) -> Sequence[str]:
        if self._solver in PACKERS:
            return (self._solver,)
        return PACKERS if blocks <= _MANY else PACKERS[:_FEW]

    def _improve(self, best: BestKnown, time_limit: float) -> bool:
        deadline = best.seconds + time_limit
        for solver, seconds in self._turns(best, time_limit):
            rest = min(seconds, deadline - best.seconds)
            if improve(best, solver, time_limit=rest, threads=self._threads, seed=self._seed):
                return True
        return False

    def _turns(self, best: BestKnown, time_limit: float) -> Iterator[tuple[str, float]]:
        if self._solver in IMPROVERS:
            yield self._solver, time_limit
        elif self._solver == "auto":
            yield from schedule(best, self._effort, time_limit)


class _Total:
    """Sum of the incumbents of several problems."""

    def __init__(self, observer: Observer | None) -> None:
        self.of: Sequence[BestKnown] = ()
        self.trace: list[Incumbent] = []
        self._observer = observer

    def observe(self, event: Incumbent) -> None:
        """Handle an improvement of one problem. A sum needs a packing of each problem."""
        last = [best.trace[-1] for best in self.of if best.trace]
        if len(last) < len(self.of):
            return
        arena, bound = sum(one.arena for one in last), sum(one.bound for one in last)
        self.trace.append(Incumbent(event.seconds, arena, bound, event.solver))
        if self._observer is not None:
            self._observer(self.trace[-1])
