"""Worker of `never_worse.py` and `rules.py`, which runs each job in its own process.

echo '{"loop": "t5", "contender": "pages"}' | run PYTHON -m loops.worker
"""

import time
from typing import Any

import torch
from support.stub_jobs import about_session, open_session
from workloads.allocators import install_pages
from workloads.costs import RunCosts
from workloads.job import OURS
from workloads.worker import serve

from loops import LoopJob, Setting, create, family


class Ended:
    """Callback at the end of each iteration, which steps the session and reads the counters."""

    def __init__(self, iterations: int, session: Any) -> None:
        self.costs, self.session = RunCosts(iterations), session

    def __call__(self) -> None:
        if self.session:
            self.session.step()
        self.costs.end_iteration()


def run(job: LoopJob) -> dict[str, Any]:
    """Build the loop, and run it to its end or out of memory; return figures, sizes in bytes."""
    from pgmo.rehearsal import control

    if job.off:
        from pgmo.allocator import heuristics

        heuristics.use(heuristics.Heuristics(**job.off))
    install_pages(job.contender)
    error, began = "", time.monotonic()
    loop, session, ended = None, None, Ended(job.iterations, None)
    try:
        loop = create(job.loop, Setting(job.seed, job.small))
        opens = job.contender in OURS[1:]
        with open_session(opens and not loop.opens_session) as session:
            ended = Ended(job.iterations, session)
            loop.run(job.iterations, ended, session=opens)
    except torch.OutOfMemoryError as problem:
        error = str(problem)
    session = session or (loop and loop.session)
    counted = torch.cuda.memory_stats()
    return {
        "peak": control.peak(0),
        "requested": counted["requested_bytes.all.peak"],
        "out_of_memory": bool(error),
        "error": error.partition("\n")[0][:300],
        "trained": ended.costs.ended,
        **ended.costs.figures(),
        "seconds": time.monotonic() - began,
        "torch": str(torch.__version__),
        **(about_session(session, ended.costs.late_from) if session else {}),
    }


def prepare(job: LoopJob) -> None:
    """Import the packages of a job, once for all later jobs of the family.

    The modules of sessions are included, because some loops open one in their first iteration.

    Raises:
        ModuleNotFoundError: if a package is not installed.
    """
    family(job.loop)
    if job.contender in OURS[1:]:
        import pgmo.allocator.optimize
        import pgmo.serving.wrap  # noqa: F401


if __name__ == "__main__":
    serve(LoopJob, run, prepare)
