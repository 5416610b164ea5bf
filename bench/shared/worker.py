"""Worker of `sharing.py`, which runs each job in its own process (`workloads/worker.py`)."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from support.stub_jobs import open_session
from workloads.allocators import install_pages
from workloads.worker import serve

from shared import BATCHES, OURS, SharedJob


def run(job: SharedJob) -> dict[str, Any]:
    """Run a job, and return its figures; sizes in bytes."""
    began = time.monotonic()
    install_pages(job.contender, OURS)
    error, figures = "", {}
    try:
        figures = run_trainings(job)
    except torch.OutOfMemoryError as problem:
        error = str(problem).partition("\n")[0][:300]
    from pgmo.rehearsal import control

    counted = torch.cuda.memory_stats()
    return {
        "peak": control.peak(0),
        "requested": counted["requested_bytes.all.peak"],
        "out_of_memory": bool(error),
        "error": error,
        "seconds": time.monotonic() - began,
        "torch": str(torch.__version__),
        **figures,
    }


def run_trainings(job: SharedJob) -> dict[str, Any]:
    """Train GPT-2 at different batches, in turns on one thread, or each on its own thread."""
    from workloads import Shape, create

    trainings = [
        create("gpt", Shape(batch=batch, small=job.small)) for batch in BATCHES[: job.models]
    ]
    length = 128 if job.small else 512
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(open_session(job.contender in OURS)) for _ in trainings]

        def iterate(at: int) -> None:
            mark = sessions[at].iteration() if sessions[at] else contextlib.nullcontext()
            with mark:
                trainings[at].step(length)
                trainings[at].optimize.zero_grad()

        each(iterate, len(trainings), job)
        figures = about([one for one in sessions if one])
    torch.cuda.synchronize()
    return {"persistent": torch.cuda.memory_allocated(), **figures}


def each(iterate: Callable[[int], None], count: int, job: SharedJob) -> None:
    """Run all iterations of all trainings."""
    if job.program == "turns":
        for _ in range(job.iterations):
            for at in range(count):
                iterate(at)
        return
    failed: list[BaseException] = []

    def train(at: int) -> None:
        try:
            for _ in range(job.iterations):
                iterate(at)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=train, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def about(sessions: list[Any]) -> dict[str, Any]:
    """Return the figures of all sessions."""
    return {
        "arenas": [session.plan.arena if session.plan else 0 for session in sessions],
        "notes": [note for session in sessions for note in session.summary().notes],
    }


if __name__ == "__main__":
    serve(SharedJob, run)
