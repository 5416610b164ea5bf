"""Worker of `phases.py`, which runs each job in its own process (`workloads/worker.py`)."""

import time
from typing import Any

import torch
from support.stub_jobs import open_session
from workloads.allocators import install_pages
from workloads.worker import serve

from phased import OURS, PhasedJob


def run(job: PhasedJob) -> dict[str, Any]:
    """Run a job, and return its figures; sizes in bytes."""
    began = time.monotonic()
    install_pages(job.contender, OURS)
    from phased import processes
    from phased.ways import way_of

    error, figures, way = "", {}, way_of(job.contender)
    try:
        processed = job.program == "processes"
        figures = processes.run(job, way) if processed else run_grpo(job, way)
    except torch.OutOfMemoryError as problem:
        error = str(problem).partition("\n")[0][:300]
    return {
        "peaks": way.peaks,
        "host": way.host,
        "out_of_memory": bool(error),
        "error": error,
        "seconds": time.monotonic() - began,
        "torch": str(torch.__version__),
        **figures,
    }


def run_grpo(job: PhasedJob, way: Any) -> dict[str, Any]:
    """Run rounds of GRPO in this process."""
    from loops import Setting

    setting = Setting(0, job.small)
    with open_session(job.contender == "pgmo") as session:
        if job.program == "trainer":
            from phased import grpo_trainer

            grpo_trainer.run(setting, way, rounds=job.rounds, session=session)
        else:
            from phased.grpo import Grpo

            loop = Grpo(setting, way, engine=job.program == "pool", session=session)
            for at in range(job.rounds):
                loop.step(at)
    return {
        "iterations": len(session.history) if session else 0,
        "notes": list(session.summary().notes) if session else [],
    }


if __name__ == "__main__":
    serve(PhasedJob, run)
