"""Worker of `rules.py`, which runs each job in its own process (`loops/worker.py`)."""

from typing import Any

from loops import worker
from workloads.worker import serve

from switches.job import RuleJob


def run(job: RuleJob) -> dict[str, Any]:
    """Run the loop with the job's heuristics, and return the figures of `loops.worker`."""
    from pgmo.allocator import heuristics

    heuristics.use(heuristics.Heuristics(**job.off))
    return worker.run(job)


if __name__ == "__main__":
    serve(lambda fields: RuleJob(**fields), run, worker.prepare)
