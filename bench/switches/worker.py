"""Runs the jobs of `rules.py`, each in a process of its own. See `loops/worker.py`."""

from pathlib import Path
from typing import Any

from loops import worker
from workloads.worker import serve

from switches import tree
from switches.job import RuleJob


def run(job: RuleJob) -> dict[str, Any]:
    """What `loops.worker` reports."""
    from pgmo.allocator import tuning

    if job.off and not tree.is_copy(Path(tuning.__file__).parents[2]):
        raise RuntimeError("this pgmo reads no numbers from the environment")
    for name, value in job.off.items():
        if hasattr(tuning, name):
            setattr(tuning, name, value)
    return worker.run(job)


if __name__ == "__main__":
    serve(lambda fields: RuleJob(**fields), run, worker.prepare)
