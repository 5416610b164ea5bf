"""Runs the jobs of `never_worse.py`, each in a process of its own. See `workloads/worker.py`.

    echo '{"loop": "t5", "contender": "pages"}' | run PYTHON -m loops.worker

What it answers to a loop is in `run_loop`, what to bare requests in `run`.
"""

import contextlib
import time
import warnings
from typing import Any

import torch
from workloads.worker import serve

from loops import create, family
from loops.job import OURS, PAGES_FIRST, LoopJob, ProgramJob, parse


def run(job: LoopJob | ProgramJob) -> dict[str, Any]:
    """What the job's process reports; sizes in bytes."""
    from pgmo.rehearsal import control

    if job.contender in PAGES_FIRST:
        import pgmo

        torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    if isinstance(job, ProgramJob):
        request(job.requests)
        return {"peak": control.peak(0)}
    return run_loop(job)


def request(requests: Any) -> None:
    """Makes the requests, and frees each block before the request that its lifetime names."""
    dying: dict[int, list[torch.Tensor]] = {}
    for now, (size, lifetime) in enumerate(requests):
        dying.pop(now, None)
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        dying.setdefault(now + 1 + lifetime, []).append(block)
        del block


class Counts:
    """Iterations that have ended, and the driver's calls in the last third of them."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self.late_from = iterations * 2 // 3
        self.ended = self.early = 0
        self.late: dict[str, int] = {}
        self.mapping: list[int] = []  # requests so far that have mapped a page, at each end
        self.planning = 0.0  # CPU seconds that the session took at the ends of iterations
        self.begun = self.computing = 0.0  # of the process, and of these iterations

    def begin(self) -> None:
        """The first iteration begins."""
        self.begun = time.process_time()

    def end(self, session: Any = None, planning: float = 0.0) -> None:
        """An iteration has ended."""
        from pgmo.rehearsal import control

        self.ended += 1
        self.planning += planning
        self.computing = time.process_time() - self.begun
        if session:
            self.mapping.append(session.statistics.get("page_requests", 0))
        if self.ended == self.late_from:
            self.early = sum(control.driver_calls(reset=True).values())
        self.late = control.driver_calls()  # without what closing a session takes

    def driver_calls(self) -> dict[str, float] | None:
        """Calls per iteration by kind; None when the last third was not reached."""
        late = self.ended - self.late_from
        if late <= 0:
            return None
        return {kind: count / late for kind, count in self.late.items() if count}


def run_loop(job: LoopJob) -> dict[str, Any]:
    """Builds the loop and runs it until it is done, or out of memory."""
    from pgmo.rehearsal import control

    counts, error, began = Counts(job.iterations), "", time.monotonic()
    loop = session = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            loop = create(job.loop, job.setting)
            opens = job.contender in OURS[1:]
            with open_session(opens and not loop.opens_session) as session:
                counts.begin()
                loop.run(job.iterations, Ended(counts, session), session=opens)
        except torch.OutOfMemoryError as problem:
            error = str(problem)
    texts = {str(one.message)[:300] for one in warned}
    session = session or (loop and loop.session)
    counted = torch.cuda.memory_stats()
    return {
        "peak": control.peak(0),
        "requested": counted["requested_bytes.all.peak"],
        "requests": counted["allocation.all.allocated"],
        "out_of_memory": bool(error),
        "error": error.partition("\n")[0][:300],
        "trained": counts.ended,
        "driver_calls": counts.driver_calls(),
        "driver_calls_before": counts.early,
        "seconds": time.monotonic() - began,
        "cpu_seconds": counts.computing,
        "warnings": sorted(text for text in texts if "pgmo" in text),
        "torch": str(torch.__version__),
        **(about(session, counts) if session else {}),
    }


class Ended:
    """Ends an iteration for whoever counts them."""

    def __init__(self, counts: Counts, session: Any) -> None:
        self.counts, self.session = counts, session

    def __call__(self) -> None:
        """The program's step function has returned."""
        began = time.process_time()
        if self.session:
            self.session.step()
        self.counts.end(self.session, time.process_time() - began)


def open_session(wanted: bool) -> Any:
    """A session of pgmo, or nothing that can be entered as one."""
    if not wanted:
        return contextlib.nullcontext()
    import pgmo

    return pgmo.optimize(device="cuda")


def about(session: Any, counts: Counts) -> dict[str, Any]:
    """What pgmo knows of the run."""
    late = session.history[counts.late_from :]
    asked = sum(one.bytes_requested for one in late)
    return {
        "from_slots": sum(one.bytes_hit for one in late) / asked if asked else None,
        "requests_that_map": per_iteration(counts.mapping[counts.late_from - 1 :]),
        "planning_seconds": counts.planning,
        "replans": session.summary().replans,
        "notes": list(session.summary().notes),
        "replayed": sum(one.phase.value == "replay" for one in session.history),
    }


def per_iteration(readings: list[int]) -> float | None:
    """What a counter has grown by between the first and the last of its readings."""
    return (readings[-1] - readings[0]) / (len(readings) - 1) if len(readings) > 1 else None


def prepare(job: LoopJob | ProgramJob) -> None:
    """Imports what the job needs, once for all that follow.

    Raises:
        ModuleNotFoundError: when it is not installed.
    """
    if isinstance(job, LoopJob):
        family(job.loop)


if __name__ == "__main__":
    serve(parse, run, prepare)
