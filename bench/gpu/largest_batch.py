"""The largest batch that trains within a limit on memory, and samples per second there.

    python bench/gpu/largest_batch.py --seconds 120 --limit 16
    python bench/gpu/largest_batch.py --quick           a tiny network, to see that it works

Contenders: default allocator, expandable segments, pgmo, and pgmo from a plan that was saved
without the limit and loaded under it. Each try is a fresh process; `bound` is the largest batch
whose live peak is below the limit, interpolated between a few, which no allocator can beat.
A search asks three batch sizes at a time and goes on between the largest that trained and the
smallest that did not. Speed is measured afterwards, with nothing else running.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _launch import (
    Budget,
    OutOfTimeError,
    WorkerError,
    at_once,
    budget_of,
    device_or_exit,
    launch,
    write_gpu_result,
)
from _machine import add_common_options
from _worker import Job, Outcome

FIRST_GUESSES = {
    "pgmo_saved_plan": (0.95, 0.98, 1.0),
    "default": (0.6, 0.7, 0.85),
    "expandable": (0.75, 0.85, 0.95),
    "pgmo": (0.6, 0.7, 0.85),
}
"""Shares of the bound to begin with: a search that starts near its end is short."""

QUICK_LIMIT = 0.5
"""GiB."""

SEARCH_SHARE = 0.65
"""Of the time, for searching; the rest is for measuring speed."""

MEASURED, SETTLED = 16, 8
"""Iterations of the run that is timed, and the first of them that counts."""


@dataclass
class Search:
    """Batch sizes tried so far by one contender; assumes that a smaller batch needs less."""

    contender: str
    bound: int
    tried: dict[int, bool] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    out_of_time: bool = False

    @property
    def fits(self) -> int:
        """The largest that trained; 0 for none."""
        return max((batch for batch, trained in self.tried.items() if trained), default=0)

    @property
    def fails(self) -> int:
        """The smallest that did not, and is larger than one that did."""
        above = [batch for batch, trained in self.tried.items() if not trained]
        return min((batch for batch in above if batch > self.fits), default=self.bound + 1)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to try."""
        return self.fails - self.fits <= 1

    def next(self) -> Sequence[int]:
        """Up to three batch sizes to try at once."""
        if not self.tried:
            guesses = (max(1, round(share * self.bound)) for share in FIRST_GUESSES[self.contender])
            return sorted(set(guesses))
        gap = self.fails - self.fits
        between = {self.fits + round(gap * quarter / 4) for quarter in (1, 2, 3)}
        return sorted(between - {self.fits, self.fails})


def attempt(job: Job, contender: str, budget: Budget) -> Outcome:
    """One try.

    Raises:
        WorkerError: when a process fails otherwise than out of memory.
        OutOfTimeError: when the time is over.
    """
    if contender != "pgmo_saved_plan":
        return launch(replace(job, allocator=contender), budget)
    with TemporaryDirectory() as folder:
        launch(replace(job, allocator="pgmo", save=folder, limit=0, iterations=10), budget)
        plan = Path(folder, f"{job.workload}.pgmoplan")
        if not plan.exists():
            raise WorkerError("the run without a limit saved no plan")
        return launch(replace(job, allocator="pgmo", plan=str(plan)), budget)


def find_bound(job: Job, own: int, budget: Budget, pool: ThreadPoolExecutor) -> int:
    """The largest batch whose live peak is below the limit, by lines through a few batch sizes.

    Two iterations are enough: the second one has the optimizer's state. Of all lines through
    neighbouring sizes the one counts that crosses the limit, or that is nearest to it.
    """
    short = replace(job, limit=2 * job.limit, iterations=2, steady_from=1)
    tries = {
        samples: pool.submit(attempt, replace(short, samples=samples), "default", budget)
        for samples in (factor * own for factor in (1, 2, 3, 4, 6))
    }
    outcomes = {samples: future.result() for samples, future in tries.items()}
    live = [(samples, one.live) for samples, one in outcomes.items() if not one.out_of_memory]
    if len(live) < 2:
        raise WorkerError(f"too large for this limit: {own} samples already")
    low, high = live[-2:]
    for one, other in pairwise(live):
        if other[1] > job.limit:
            low, high = one, other
            break
    slope = (high[1] - low[1]) / (high[0] - low[0])
    return max(1, int(low[0] + (job.limit - low[1]) / slope))


def find_largest(
    one: Search, job: Job, budget: Budget, pool: ThreadPoolExecutor, *, quick: bool
) -> Search:
    """Tries until the largest is known, or the time is over; quickly, once."""
    while not (one.complete or one.errors or one.out_of_time or (quick and one.tried)):
        tries: dict[int, Future[Outcome]] = {
            batch: pool.submit(attempt, replace(job, samples=batch), one.contender, budget)
            for batch in one.next()
        }
        for batch, future in tries.items():
            try:
                one.tried[batch] = not future.result().out_of_memory
            except WorkerError as error:
                one.errors.append(f"batch {batch}: {error}")
            except OutOfTimeError:
                one.out_of_time = True
    return one


def measure(
    job: Job,
    contenders: Sequence[str],
    bound: int,
    budget: Budget,
    pool: ThreadPoolExecutor,
    *,
    quick: bool,
) -> list[Search]:
    """Searches for all contenders at once."""
    with ThreadPoolExecutor(len(contenders)) as searchers:
        futures = [
            searchers.submit(find_largest, Search(contender, bound), job, budget, pool, quick=quick)
            for contender in contenders
        ]
        return [future.result() for future in futures]


def speed(job: Job, found: Search, budget: Budget) -> dict[str, Any]:
    """Samples per second at the largest batch, from the median of the settled iterations."""
    if not found.fits:
        return {}
    timed = replace(job, samples=found.fits, iterations=MEASURED, steady_from=SETTLED)
    try:
        outcome = attempt(timed, found.contender, budget)
    except WorkerError as error:
        found.errors.append(str(error))
        return {}
    except OutOfTimeError:
        return {}
    seconds = outcome.seconds[SETTLED:]
    if not seconds:
        return {"speed_note": f"in more iterations: {outcome.out_of_memory}"}
    step = statistics.median(seconds)
    return {
        "step_seconds": step,
        "step_seconds_fastest": min(seconds),
        "step_seconds_slowest": max(seconds),
        "samples_per_second": found.fits / step,
    }


def show(name: str, one: Search, rate: float | None) -> None:
    rest = "" if one.complete else f"  (below {one.fails}; the time was over)"
    rest += f"  {rate:.1f} samples/s" if rate else ""
    rest += "".join(f"  {error}" for error in one.errors)
    print(f"{name:31}{one.contender:17}{one.fits:4} of {one.bound}{rest}", flush=True)


def main(
    result: str = "largest_batch",
    workloads: str = "BATCHES",
    contenders: Sequence[str] = tuple(FIRST_GUESSES),
    what: str = str(__doc__),
) -> None:
    """Searches, and measures speed.

    Args:
        result: its name.
        workloads: the name of those in `_workloads`.
        contenders: where the command line names none.
        what: the program's description.
    """
    parser = argparse.ArgumentParser(description=what.partition("\n")[0])
    parser.add_argument("--workload", action="append")
    parser.add_argument("--contender", action="append", choices=tuple(FIRST_GUESSES))
    parser.add_argument("--limit", type=float, default=16, help="GiB that torch may reserve")
    parser.add_argument("--seconds", type=float, default=900, help="time budget")
    add_common_options(parser)
    arguments = parser.parse_args()
    device_or_exit()
    import _workloads

    wanted: dict[str, _workloads.Workload] = getattr(_workloads, workloads)
    if arguments.quick:
        wanted, arguments.limit = _workloads.QUICK, QUICK_LIMIT
        arguments.contender = arguments.contender or ["default", "pgmo"]
    limit = int(arguments.limit * 2**30)
    asked = arguments.contender or list(contenders)
    budget = budget_of(arguments)
    searching = Budget(budget.seconds * SEARCH_SHARE, budget.longest)
    entries: list[dict[str, Any]] = []
    failed = False
    found: dict[str, tuple[Job, list[Search]]] = {}
    with ThreadPoolExecutor(at_once(limit + (4 << 30))) as pool:
        for name in arguments.workload or wanted:
            iterations = 14 if wanted[name].varying else 8
            job = Job(name, iterations=iterations, steady_from=iterations - 1, limit=limit)
            try:
                bound = find_bound(job, wanted[name].samples, searching, pool)
            except (WorkerError, OutOfTimeError) as error:
                print(f"{name:31}{error}")
                failed |= isinstance(error, WorkerError)
                continue
            found[name] = (
                job,
                measure(job, asked, bound, searching, pool, quick=arguments.quick),
            )
    for name, (job, searches) in found.items():
        for one in searches:
            measured = speed(job, one, budget)
            row = {"workload": name, **asdict(one), "largest": one.fits, "complete": one.complete}
            entries.append({**row, **measured})
            show(name, one, measured.get("samples_per_second"))
            failed |= bool(one.errors)
    figures = {"limit_bytes": limit, "entries": entries}
    write_gpu_result(result, figures, arguments.output, quick=arguments.quick)
    if failed:
        sys.exit("a run failed otherwise than out of memory")


if __name__ == "__main__":
    main()
