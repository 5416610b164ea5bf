"""Worker on the stub CUDA runtime, which runs each job in a process of its own (`launch.py`).

    echo '{"network": "gpt", "lengths": "any"}' | run PYTHON -m workloads.worker

Importing torch takes as long as most jobs. So the worker imports it once, before CUDA is
initialized, and runs each job in a fork. For each line of standard input it prints one line of
JSON: the outcome, `{"failed": text}` or `{"skipped": text}`.
"""

import contextlib
import gc
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch._dynamo  # optimizers import it in their first step

from workloads import create
from workloads.allocators import install_pages
from workloads.columns import calls
from workloads.costs import RunCosts
from workloads.job import Job, StubJob

J = TypeVar("J", bound=StubJob)


def serve(
    kind: Callable[..., J],
    run: Callable[[J], dict[str, Any]],
    prepare: Callable[[J], None] = lambda job: None,
) -> None:
    """Answer each line of standard input.

    If a package is missing, in `prepare` or in `run`, the answer is `{"skipped": reason}`.

    Args:
        kind: class of the jobs, whose fields are a line's JSON.
        run: runs the job in its fork, and returns the answer.
        prepare: imports the packages of the job before the fork.
    """
    for line in sys.stdin:
        job = kind(**json.loads(line))
        try:
            prepare(job)
        except ModuleNotFoundError as error:
            answer = skipped(error)
        else:
            freeze_imports()
            answer = in_child(job, run)
        print(json.dumps(answer), flush=True)


def freeze_imports() -> None:
    """Exclude imported objects from garbage collection.

    A full collection takes as long as several iterations and happens at most once in a run, so it
    would add to the CPU time of one contender only.
    """
    gc.collect()
    gc.freeze()


def in_child(job: J, run: Callable[[J], dict[str, Any]]) -> dict[str, Any]:
    """Run the job in a fork; return its answer, or its failure."""
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            os.environ.update(job.environment)
            try:
                result = run(job)
            except ModuleNotFoundError as error:
                result = skipped(error)
            except BaseException:
                result = {"failed": traceback.format_exc()}
            answer.write(json.dumps(result).encode())
            answer.flush()
            os._exit(0)  # without finalizers
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        text = answer.read()
        if status == 0 and text:
            found: dict[str, Any] = json.loads(text)
            return found
        said.seek(0)
        return {"failed": f"ended with status {status}:\n{said.read().decode(errors='replace')}"}


def skipped(error: ModuleNotFoundError) -> dict[str, Any]:
    """Return the answer if a package is missing."""
    return {"skipped": f"{error.name} is not installed"}


def run(job: Job) -> dict[str, Any]:
    """Train to the end or out of memory; return the figures, sizes in bytes.

    Counts are per iteration of the last third. They are None if the run ended before that.
    Counts of pages are also None without pages.
    """
    from pgmo.rehearsal import control

    error, lengths = "", job.drawn_lengths
    costs = RunCosts(len(lengths))
    install_pages(job.contender)
    try:
        workload = create(job.network, job.shape)
        with open_session(job) as session:
            costs = RunCosts(len(lengths))
            for length in lengths:
                workload.step(length)
                if session:
                    session.step()
                costs.end_iteration()
    except torch.OutOfMemoryError as problem:
        error = str(problem)
    cost = costs.figures()
    return {
        "requested": torch.cuda.memory_stats()["requested_bytes.all.peak"],
        "reserved": control.peak(0),
        "out_of_memory": bool(error),
        "trained": costs.ended,
        "torch": str(torch.__version__),
        "error": error,
        "driver_calls": calls(cost),
        "requests_that_map": cost.get("requests_that_map"),
        "waits": cost.get("waits"),
        "cpu_seconds": costs.cpu_seconds,
    }


def open_session(job: Job) -> Any:
    """Return a session of pgmo, or a context that does nothing for other contenders."""
    if not job.contender.startswith("pgmo"):
        return contextlib.nullcontext()
    import pgmo

    if job.save:
        return pgmo.optimize(device="cuda", save=job.save, model_name=job.network)
    return pgmo.optimize(device="cuda", plan=job.plan or None)


if __name__ == "__main__":
    serve(Job, run)
