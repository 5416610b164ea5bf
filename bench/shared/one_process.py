"""One training of several that share a card, each in its own process; see `processes.py`."""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from support.stub_jobs import open_session
from workloads.allocators import install_pages

from shared import OURS, SharedJob


def main() -> None:
    """Run the job of the command line, and print its figures."""
    fields = json.loads(sys.argv[1])
    job = SharedJob(**fields["job"])
    print(json.dumps(run(job, fields["at"], fields["batch"], Path(fields["folder"]))))


def run(job: SharedJob, at: int, batch: int, folder: Path) -> dict[str, Any]:
    """Train, and return the figures of this process; sizes in bytes."""
    from pgmo.rehearsal import control

    began = time.monotonic()
    install_pages(job.contender, OURS)
    error, session, persistent = "", None, 0
    try:
        from workloads import Shape, create

        training = create("gpt", Shape(batch=batch, small=job.small))
        meet(folder, "built", at, job.models)
        with open_session(job.contender in OURS) as session:
            for _ in range(job.iterations):
                with session.iteration() if session else contextlib.nullcontext():
                    training.step(128 if job.small else 512)
                    training.optimize.zero_grad()
            persistent = torch.cuda.memory_allocated()
            meet(folder, "trained", at, job.models)
    except torch.OutOfMemoryError as problem:
        error = str(problem).partition("\n")[0][:300]
        for name in ("built", "trained"):
            (folder / f"{name}{at}").touch()  # lets the other processes continue
    torch.cuda.synchronize()
    return {
        "peak": control.card_peak(0),
        "error": error,
        "seconds": time.monotonic() - began,
        "torch": str(torch.__version__),
        "persistent": persistent,
        "arena": session.plan.arena if session and session.plan else 0,
        "notes": list(session.summary().notes) if session else [],
    }


def meet(folder: Path, name: str, at: int, count: int) -> None:
    """Wait until all processes have reached the point `name`."""
    (folder / f"{name}{at}").touch()
    while not all((folder / f"{name}{one}").exists() for one in range(count)):
        time.sleep(0.02)


if __name__ == "__main__":
    main()
