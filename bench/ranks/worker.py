"""Worker of `fakecuda_ranks.py`, which runs each job in its own process (`workloads/worker.py`).

echo '{"program": "fsdp2", "world": 8, "contender": "pgmo"}' | run PYTHON -m ranks.worker
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
from support.stub_jobs import about_session, open_session
from workloads.allocators import install_pages
from workloads.costs import RunCosts
from workloads.job import OURS
from workloads.worker import serve

from ranks import RankJob, programs


def run(job: RankJob) -> dict[str, Any]:
    """Run a job, and return its figures: sizes in bytes, counts per iteration of the last third."""
    from pgmo.rehearsal import control

    install_pages(job.contender)
    began, error = time.monotonic(), ""
    found: dict[str, Any] = {}
    costs = RunCosts(job.iterations)
    try:
        programs.begin(job)
        step = programs.create(job)
        streams = every_stream() if job.lag else []
        with open_session(job.contender in OURS[1:]) as session:
            costs = RunCosts(job.iterations)
            for iteration in range(job.iterations):
                if iteration == costs.late_from:
                    found |= peaks(control, "")
                    control.peak(0, reset=True)
                    torch.cuda.reset_peak_memory_stats()
                with held(streams, control):
                    step()
                    if session:
                        session.step()
                costs.end_iteration()
            found |= peaks(control, "steady_")
            if session:
                found |= about(session, costs.late_from)
    except torch.OutOfMemoryError as problem:
        error = str(problem)
    for kind in ("peak", "requested"):
        if f"steady_{kind}" in found:
            found[kind] = max(found[kind], found[f"steady_{kind}"])
    return {
        **found,
        "out_of_memory": bool(error),
        "error": error.partition("\n")[0][:300],
        "trained": costs.ended,
        **costs.figures(),
        "seconds": time.monotonic() - began,
        "torch": str(torch.__version__),
    }


def every_stream() -> list[torch.cuda.Stream]:
    """Return the current stream, and all streams of PyTorch's pools."""
    pooled = [torch.cuda.Stream(priority=level) for level in (0, -1) for _ in range(32)]
    return [torch.cuda.current_stream(), *pooled]


@contextlib.contextmanager
def held(streams: list[torch.cuda.Stream], control: Any) -> Iterator[None]:
    """Hold the streams back: work that is submitted inside is done at the end."""
    for stream in streams:
        control.hold(stream)
    yield
    for stream in streams:
        control.release(stream)


def peaks(control: Any, prefix: str) -> dict[str, int]:
    """Return the peaks of the card and of requested bytes, with prefixed names."""
    requested = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    return {f"{prefix}peak": control.peak(0), f"{prefix}requested": requested}


def about(session: Any, late_from: int) -> dict[str, Any]:
    """Return the session's counters, and figures of its plan."""
    serves = any(one.bytes_hit for one in session.history[late_from:])
    return about_session(session, late_from) | about_plan(session, serves=serves)


def about_plan(session: Any, *, serves: bool) -> dict[str, Any]:
    """Return the bytes that the plan needs, and its loads; without a plan, only a gap of 0."""
    plan = session.plan
    if plan is None or not plan.max_load:
        return {"gap": 0.0}
    bound = plan.ordered_load or plan.max_load
    found = {"max_load": plan.max_load, "ordered_load": plan.ordered_load}
    if serves:
        needed = session.statistics["planned_pages"] or plan.arena
        found |= {"needed": needed, "gap": float(needed / bound - 1)}
    return found


if __name__ == "__main__":
    serve(RankJob, run)
