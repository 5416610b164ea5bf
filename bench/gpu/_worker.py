"""Worker that runs one workload once with one allocator, in a process of its own.

    python bench/gpu/_worker.py '{"workload": "resnet50", "allocator": "pgmo"}'

It prints one line of JSON: the fields of `Outcome`.
"""

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

STUB = bool(os.environ.get("PGMO_FAKECUDA"))


@dataclass(frozen=True)
class Job:
    """One run of a workload.

    Args:
        workload: a name in `_workloads.EVERY`.
        allocator: "default", "expandable" (set by the environment), "pages", or "pgmo".
        iterations: number of iterations.
        steady_from: first iteration of the steady part, for which peaks are measured again.
        samples: samples of a batch; 0 for the workload's own number.
        save: folder to which the plan is saved; "" for none.
        plan: path of a saved plan to begin with; "" for none.
    """

    workload: str
    allocator: str = "default"
    iterations: int = 12
    steady_from: int = 8
    samples: int = 0
    save: str = ""
    plan: str = ""


@dataclass
class Outcome:
    """Result of a run; sizes in bytes.

    Args:
        losses: loss of each iteration, as a hexadecimal float.
        digest: fingerprint of the final parameters.
        seconds: seconds of each iteration, until the device has finished.
        live: peak of bytes that torch counts as allocated, over the whole run. An arena without
            pages counts as one block.
        reserved: peak of bytes that torch has reserved, over the whole run.
        live_steady: as `live`, from the job's `steady_from` on.
        reserved_steady: as `reserved`, from `steady_from` on.
        expandable: whether any segment is expandable.
        out_of_memory: text of torch's error if memory ran out; "" otherwise.
        phases: phase of the session in each iteration.
        hit_bytes: share of bytes from slots, from the second replayed iteration on; None if
            there is none.
        summary: summary of the session.
        samples: samples of a batch.
        costs: figures of `workloads.costs.RunCosts`.
    """

    losses: list[str] = field(default_factory=list)
    digest: str = ""
    seconds: list[float] = field(default_factory=list)
    live: int = 0
    reserved: int = 0
    live_steady: int = 0
    reserved_steady: int = 0
    expandable: bool = False
    out_of_memory: str = ""
    phases: list[str] = field(default_factory=list)
    hit_bytes: float | None = None
    summary: str = ""
    samples: int = 0
    costs: dict[str, Any] = field(default_factory=dict)


def run(job: Job) -> Outcome:
    """Run the job on the current device."""
    from _workloads import EVERY
    from workloads.allocators import install_pages

    install_pages(job.allocator)
    make_deterministic(strict=EVERY[job.workload].repeats)
    return attempt(job)


def attempt(job: Job) -> Outcome:
    """Train from the first iteration; out of memory is an outcome."""
    import torch

    outcome = Outcome()
    session = open_session(job)
    try:
        with session or contextlib.nullcontext():
            train(job, session, outcome)
    except torch.OutOfMemoryError as error:
        outcome.out_of_memory = str(error)
    outcome.live = max(outcome.live, torch.cuda.max_memory_allocated())
    outcome.reserved = max(outcome.reserved, torch.cuda.max_memory_reserved())
    if session is not None:
        describe(session, outcome)
    return outcome


def limit_memory(size: int) -> None:
    """Let torch reserve at most `size` bytes."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / total))


def make_deterministic(*, strict: bool) -> None:
    """Make torch's results bit-identical in each run, without filling uninitialized memory.

    Args:
        strict: whether an operator without a deterministic kernel raises an error.
    """
    import torch

    torch.use_deterministic_algorithms(True, warn_only=not strict)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    if STUB:
        torch.backends.cudnn.enabled = False


def open_session(job: Job) -> Any:
    """Return the session of the job; None without pgmo."""
    if job.allocator != "pgmo":
        return None
    import pgmo

    options: dict[str, Any] = {"device": "cuda", "model_name": job.workload}
    if job.save:
        options["save"] = job.save
    if job.plan:
        options["plan"] = job.plan
    return pgmo.optimize(**options)


def train(job: Job, session: Any, outcome: Outcome) -> None:
    """Run the iterations, and fill in the outcome; only a part of it if memory runs out."""
    import torch
    from _workloads import EVERY
    from workloads.costs import RunCosts

    program = EVERY[job.workload].create(job.samples)
    outcome.samples = program.samples
    costs = RunCosts(job.iterations)
    for index in range(job.iterations):
        if index == job.steady_from:
            outcome.live = torch.cuda.max_memory_allocated()
            outcome.reserved = torch.cuda.max_memory_reserved()
            torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with session.iteration() if session is not None else contextlib.nullcontext():
            loss = program.step(index).item()
        torch.cuda.synchronize()
        outcome.seconds.append(time.perf_counter() - begin)
        outcome.losses.append(float(loss).hex())
        costs.end_iteration()
    outcome.costs = costs.figures()
    outcome.live_steady = torch.cuda.max_memory_allocated()
    outcome.reserved_steady = torch.cuda.max_memory_reserved()
    segments = torch.cuda.memory_snapshot()
    outcome.expandable = any(segment.get("is_expandable", False) for segment in segments)
    total = 0
    for parameter in program.model.parameters():
        bits = parameter.detach().contiguous().view(torch.int32)
        total = (total * 31 + int(bits.sum(dtype=torch.int64))) % (1 << 64)
    outcome.digest = f"{total:016x}"


def describe(session: Any, outcome: Outcome) -> None:
    """Add the session's phases, hits and summary to the outcome."""
    history = session.history
    outcome.phases = [one.phase.value for one in history]
    replayed = [one for one in history if one.phase.value == "replay"][1:]
    asked = sum(one.bytes_requested for one in replayed)
    if asked:
        outcome.hit_bytes = sum(one.bytes_hit for one in replayed) / asked
    outcome.summary = str(session.summary())


if __name__ == "__main__":
    print(json.dumps(asdict(run(Job(**json.loads(sys.argv[1]))))), flush=True)
