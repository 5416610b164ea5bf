"""Runs the jobs of `fakecuda_ranks.py`, each in a process of its own. See `workloads/worker.py`.

echo '{"program": "fsdp2", "world": 8, "contender": "pgmo"}' | run PYTHON -m ranks.worker
"""

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from workloads.worker import serve

from ranks import programs
from ranks.job import OURS, RankJob


def run(job: RankJob) -> dict[str, Any]:
    """What the job's process reports; sizes in bytes, counts per iteration of the last third."""
    from pgmo.rehearsal import control

    if job.contender == "pgmo_run":
        import pgmo

        torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    began, error, trained = time.monotonic(), "", 0
    late_from = job.iterations * 2 // 3
    session, before, found = None, {}, {}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            programs.begin(job)
            step = programs.create(job)
            streams = every_stream() if job.lag else []
            with open_session(job) as session:
                for iteration in range(job.iterations):
                    if iteration == late_from:
                        found |= peaks(control, "")
                        control.peak(0, reset=True)
                        control.driver_calls(reset=True)
                        torch.cuda.reset_peak_memory_stats()
                        before = dict(session.statistics) if session else {}
                    with held(streams, control):
                        step()
                        if session:
                            session.step()
                    trained += 1
                found |= peaks(control, "steady_")
                calls = control.driver_calls()
                if session:
                    found |= about(session, before, late_from)
        except torch.OutOfMemoryError as problem:
            error = str(problem)
    late = max(1, trained - late_from)
    for kind in ("peak", "requested"):
        if f"steady_{kind}" in found:
            found[kind] = max(found[kind], found[f"steady_{kind}"])
    return {
        **found,
        "out_of_memory": bool(error),
        "error": error.partition("\n")[0][:300],
        "trained": trained,
        "driver_calls": {kind: count / late for kind, count in calls.items() if count},
        "seconds": time.monotonic() - began,
        "warnings": sorted({str(one.message)[:300] for one in warned}),
        "torch": str(torch.__version__),
    }


def every_stream() -> list[torch.cuda.Stream]:
    """The current one, and those that PyTorch hands out in turn."""
    pooled = [torch.cuda.Stream(priority=level) for level in (0, -1) for _ in range(32)]
    return [torch.cuda.current_stream(), *pooled]


@contextlib.contextmanager
def held(streams: list[torch.cuda.Stream], control: Any) -> Iterator[None]:
    """What is submitted inside is done at the end."""
    for stream in streams:
        control.hold(stream)
    yield
    for stream in streams:
        control.release(stream)


def peaks(control: Any, prefix: str) -> dict[str, int]:
    """Of the card, and of what the program asked for."""
    requested = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    return {f"{prefix}peak": control.peak(0), f"{prefix}requested": requested}


def open_session(job: RankJob) -> Any:
    """A session of pgmo, or nothing that can be entered as one."""
    if job.contender not in OURS:
        return contextlib.nullcontext()
    import pgmo

    return pgmo.optimize(device="cuda")


def about(session: Any, before: dict[str, int], late_from: int) -> dict[str, Any]:
    """What pgmo knows of the run."""
    late = session.history[late_from:]
    asked = sum(one.bytes_requested for one in late)
    summary = session.summary()
    now = session.statistics

    def per_iteration(name: str) -> float:
        return (now.get(name, 0) - before.get(name, 0)) / max(1, len(late))

    return {
        "from_slots": sum(one.bytes_hit for one in late) / asked if asked else None,
        "requests_that_map": per_iteration("page_requests"),
        "waits": per_iteration("page_waits"),
        "waits_added": per_iteration("page_waits_added"),
        "hand_overs": per_iteration("page_hand_overs"),
        **about_plan(session),
        "replans": summary.replans,
        "notes": list(summary.notes),
        "replayed": sum(one.phase.value == "replay" for one in session.history),
    }


def about_plan(session: Any) -> dict[str, Any]:
    """What it needs, in bytes, beside the bounds: by requests, and as streams are ordered."""
    plan = session.plan
    if plan is None or not plan.max_load:
        return {"gap": 0.0}
    needed = session.statistics["planned_pages"] or plan.arena
    bound = plan.ordered_load or plan.max_load
    return {
        "needed": needed,
        "max_load": plan.max_load,
        "ordered_load": plan.ordered_load,
        "gap": float(needed / bound - 1),
    }


if __name__ == "__main__":
    serve(lambda fields: RankJob(**fields), run)
