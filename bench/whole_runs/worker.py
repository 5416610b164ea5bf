"""Runs the jobs of `real_programs.py --on-stub`, each in a process of its own.

    echo '{"program": "nanogpt", "contender": "pgmo_run"}' | run PYTHON -m whole_runs.worker

Programs are run as `python` would run them, or as `pgmo run` does; see `workloads/worker.py`.
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

from whole_runs.job import WholeRun


def run(job: WholeRun) -> dict[str, Any]:
    """What the job's process reports; sizes in bytes.

    Raises:
        RuntimeError: when the program ends with an error.
    """
    from pgmo.rehearsal import control

    # No kernel runs here, Triton's neither; without it trl takes the same losses by operators of
    # PyTorch. With it, it would look for a driver beside the stub, and compile against that.
    sys.modules["triton"] = None  # type: ignore[assignment]
    # The stub runtime has cuBLAS, but no cuDNN.
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
    """Runs the program as `python` would."""
    from pgmo.runner.program import Program

    ending = Program(command[0], arguments=tuple(command[1:])).run()
    if ending.error is not None:
        raise ending.error
    return {}


def under_pgmo(job: WholeRun, command: list[str]) -> dict[str, Any]:
    """Runs the program as `pgmo run` would; what is known of its sessions."""
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
    """Sees whether what the job needs is there; some packages touch CUDA when they are imported.

    Raises:
        ModuleNotFoundError: when it is not installed.
    """
    for name in PROGRAMS[job.program].packages:
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)


if __name__ == "__main__":
    serve(lambda fields: WholeRun(**fields), run, prepare)
