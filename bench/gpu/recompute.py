"""Recomputation on a GPU: peak, step time and largest batch, against PyTorch's own ways.

    python bench/gpu/recompute.py --seconds 300
    python bench/gpu/recompute.py --quick           a tiny network

ResNet-50, U-Net and GPT-2 medium run each way in a fresh process: unchanged, with
`torch.utils.checkpoint` around each block, with `activation_memory_budget`, and with
`pgmo.recompute` at half of the peak and at the least, each without and with values that are
offloaded to the host. A step is forward, backward and AdamW. The search for the largest batch has
a memory limit, and ends when a step fails. A job that has not begun when the time is over is left
out.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from _launch import (
    Budget,
    OutOfTimeError,
    TooLongError,
    WorkerError,
    budget_of,
    device_or_exit,
    gpu_parser,
    run_worker,
    write_gpu_result,
)
from support.machine import show

WORKLOADS = {"resnet50": 64, "unet": 16, "gpt2_medium": 4}
"""Networks, and the samples of their batches."""

WAYS: tuple[tuple[str, float | str | None], ...] = (
    ("plain", None),
    ("pgmo", 0.5),
    ("checkpoint", "each block"),
    ("activation_memory_budget", 0.5),
    ("pgmo", "min"),
    ("activation_memory_budget", 0.2),
    ("pgmo, offload", 0.5),
    ("pgmo, offload", "min"),
)
QUICK, QUICK_LIMIT = "tiny", 1 << 29

SEARCHED = (WAYS[0], WAYS[4], WAYS[2], WAYS[5])
"""Ways for which the largest batch is searched for."""

WARM, TIMED = 3, 8
LONGEST = 120
LINK = "pcie5"


@dataclass(frozen=True)
class Job:
    """Job of one process.

    Args:
        workload: a name in `WORKLOADS`, or `QUICK`.
        way: first item of an entry of `WAYS`.
        setting: second item of the entry.
        samples: samples of a batch, or of the first batch of a search.
        limit: bytes that torch may reserve in a search for the largest batch; 0: measure steps.
    """

    workload: str
    way: str
    setting: float | str | None
    samples: int
    limit: int = 0


def jobs(limit: int, *, quick: bool) -> Iterator[Job]:
    """Yield jobs: each way on all networks, the most important ways first."""
    if quick:
        for (way, setting), most in ((WAYS[0], 0), (WAYS[4], 0), (WAYS[4], QUICK_LIMIT)):
            yield Job(QUICK, way, setting, 4, most)
        return
    for ways, most in ((WAYS[:4], 0), (SEARCHED, limit), (WAYS[4:], 0)):
        for way, setting in ways:
            for name, samples in WORKLOADS.items():
                yield Job(name, way, setting, samples, most)


def work(job: Job) -> dict[str, Any]:
    """Run a job in this process, and return its result."""
    import torch
    from _worker import STUB

    if STUB:
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_cudnn_sdp(False)
    from pgmo.errors import BudgetError

    try:
        return _largest(job) if job.limit else _measure(job)
    except BudgetError as error:
        return {"cannot": str(error)}


def _largest(job: Job) -> dict[str, Any]:
    """Search for the largest batch that trains within the limit."""
    from _worker import limit_memory
    from workloads.search import largest_batch

    limit_memory(job.limit)
    return largest_batch(lambda batch: _reserved(job, batch), job.samples)


def _reserved(job: Job, batch: int) -> int | None:
    """Return the most bytes that torch reserved in two steps; None if memory ran out."""
    import torch

    from pgmo.errors import BudgetError

    torch.cuda.reset_peak_memory_stats()
    try:
        _train(job, batch, steps=2)
        return int(torch.cuda.max_memory_reserved())
    except (torch.OutOfMemoryError, BudgetError):  # BudgetError: a capture does not fit
        return None
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def _measure(job: Job) -> dict[str, Any]:
    import torch

    before, way, seconds = _train(job, job.samples, steps=WARM + TIMED)
    found: dict[str, Any] = {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "resident": before,
        "step_seconds": statistics.median(seconds[WARM:]),
        "share": way.share,
    }
    if hasattr(way, "plan"):
        found |= {
            "predicted": way.plan.peak,
            "default_predicted": way.plan.default_peak,
            "planning_seconds": way.planning,
            "offloaded": len(way.plan.offloaded),
        }
    return found


def _train(job: Job, samples: int, steps: int) -> tuple[int, Any, list[float]]:
    """Train; return the bytes allocated before the first step, the way, and step seconds."""
    import torch
    from _workloads import EVERY
    from recomputation.step_ways import MemoryBudget, Planned, Way
    from torch import nn
    from workloads.step import WithLoss

    program = EVERY[job.workload].create(samples, recompute=job.way == "checkpoint")
    inputs = [one.contiguous() for one in program.batch(0)]
    model: nn.Module = _Autocast(WithLoss(program.model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    way: Any
    if job.way.startswith("pgmo"):
        options = {"offload": LINK} if job.way == "pgmo, offload" else {}
        way = Planned(model, inputs, job.setting, job.setting, **options)
    elif job.way == "activation_memory_budget":
        assert isinstance(job.setting, float)
        way = MemoryBudget(model, inputs, job.setting)
    else:
        way = Way(job.way, job.setting, model, inputs)
    seconds = []
    for step in range(steps):
        if step == min(WARM, steps - 1):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        way.step()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return before, way, seconds


def _Autocast(module: Any) -> Any:  # noqa: N802, its class needs torch
    import torch
    from torch import nn

    class Autocast(nn.Module):
        """Autocast inside of the forward pass, so that a capture includes it."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: Any) -> Any:
            with torch.autocast("cuda", torch.bfloat16):
                return self.module(*inputs)

    return Autocast()


def launch(job: Job, budget: Budget) -> dict[str, Any]:
    """Run a job in a fresh process; return its result, or the reason why there is none."""
    try:
        done = run_worker((__file__, "--job", json.dumps(asdict(job))), "default", budget)
    except (TooLongError, OutOfTimeError) as error:
        return {"left_out": str(error)}
    except WorkerError as error:
        return {"failed": str(error)}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run all jobs within the time, and write the result."""
    parser = gpu_parser(__doc__, seconds=600)
    parser.add_argument("--limit", type=float, default=16, help="GiB, for the largest batch")
    parser.add_argument("--ways", nargs="+", choices=sorted({way for way, _ in WAYS}))
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    device_or_exit()
    if arguments.job:
        print(json.dumps(work(Job(**json.loads(arguments.job)))), flush=True)
        return
    budget = budget_of(arguments)
    budget.longest = max(LONGEST, budget.longest)
    rows = []
    limit = int(arguments.limit * 2**30)
    for job in jobs(limit, quick=arguments.quick):
        if arguments.ways and job.way not in arguments.ways:
            continue
        rows.append(asdict(job) | launch(job, budget))
        show(rows[-1])
    write_gpu_result("recompute", {"rows": rows}, arguments.output, quick=arguments.quick)
    if any("failed" in row for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
