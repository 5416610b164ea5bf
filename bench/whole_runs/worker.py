"""Worker of `real_programs.py --on-stub`, which runs each job in its own process.

    echo '{"program": "nanogpt", "contender": "pgmo_run"}' | run PYTHON -m whole_runs.worker

A program runs as by `python`, or as by `pgmo run`; see `workloads/worker.py`.
"""

import sys
import time
from importlib.util import find_spec
from typing import Any

import torch
from programs import PROGRAMS, script
from workloads.allocators import install_pages
from workloads.costs import costs_of_steps
from workloads.worker import serve

from whole_runs import WholeRun


def run(job: WholeRun) -> dict[str, Any]:
    """Run a job, and return its figures; sizes in bytes.

    Raises:
        RuntimeError: if `pgmo run` ends with an error. Without pgmo, the program's own error is
            raised.
    """
    from pgmo.rehearsal import control

    # Triton would look for a driver, and compile code for it. Without Triton, trl computes its
    # losses by operators of PyTorch.
    sys.modules["triton"] = None  # type: ignore[assignment]
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    own = [str(script(job.program)), "--steps", str(job.steps), *(["--small"] if job.small else [])]
    began = time.monotonic()
    costs = costs_of_steps()
    if job.contender == "pgmo_run":
        about = under_pgmo(job, own)
    else:
        install_pages(job.contender)
        about = as_it_is(own)
    counted = torch.cuda.memory_stats()
    return {
        "peak": control.peak(0),
        "requested": counted["requested_bytes.all.peak"],
        "seconds": time.monotonic() - began,
        "optimizer_steps": costs.ended,
        **costs.figures(),
        "cpu_seconds": time.process_time(),
        "torch": str(torch.__version__),
        **about,
    }


def as_it_is(command: list[str]) -> dict[str, Any]:
    """Run the program as `python` does."""
    from pgmo.runner.program import Program

    ending = Program(command[0], arguments=tuple(command[1:])).run()
    if ending.error is not None:
        raise ending.error
    return {}


def under_pgmo(job: WholeRun, command: list[str]) -> dict[str, Any]:
    """Run the program as `pgmo run` does; return figures of its first session."""
    from pgmo.cli.main import main
    from pgmo.runner.supervision import Supervision

    seen: list[Supervision] = []
    notify = Supervision.notify

    def seeing(supervision: Supervision) -> None:
        notify(supervision)
        seen[:] = [supervision]

    Supervision.notify = seeing  # type: ignore[method-assign]
    status = main(["run", "--quiet", *PROGRAMS[job.program].options, *command])
    if status:
        raise RuntimeError(f"pgmo run ended with status {status}")
    if not seen or not seen[0].sessions:
        return {"iterations": 0}
    summary = seen[0].sessions[0].counted()
    return {
        "iterations": summary.iterations,
        "from_slots": summary.run_share,
        "waited": summary.waited,
        "notes": [*seen[0].notes, *summary.notes],
    }


def prepare(job: WholeRun) -> None:
    """Check that the job's packages are installed, without importing them: some initialize CUDA.

    Raises:
        ModuleNotFoundError: if a package is not installed.
    """
    for name in PROGRAMS[job.program].packages:
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)


if __name__ == "__main__":
    serve(WholeRun, run, prepare)
