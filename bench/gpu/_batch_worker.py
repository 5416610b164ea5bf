"""Worker of `largest_batch.py`: finds the largest batch that trains, and its speed.

    echo '{"workload": "resnet50", "allocator": "pages", "bound": 0, "limit": 17179869184}' |
        python bench/gpu/_batch_worker.py

The worker imports everything before it reads its job, so that it can start while another worker
measures. The worker prints one line of JSON: the fields of `Found`, or `{"error": text}`.
"""

import gc
import json
import statistics
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from _worker import Job, Outcome, attempt, limit_memory, make_deterministic
from _workloads import EVERY
from workloads.allocators import install_pages

FIXED, VARYING = (12, 8), (20, 10)
"""Iterations of an attempt, and the first one whose time counts. A session replays by then."""

TOLERANCE = 33
"""The result of a search is right to 1/33 of the bound."""


@dataclass
class Found:
    """Result of a search.

    Args:
        bound: estimate of the largest batch whose live peak is below the limit.
        largest: the largest batch that trained; 0 for none.
        tried: whether each batch that was tried has trained.
        step_seconds: median seconds of the settled iterations at the largest batch.
        samples_per_second: speed at the largest batch.
        phases: phase of the session in each iteration at the largest batch.
        costs: figures of `workloads.costs.RunCosts` at the largest batch.
    """

    bound: int
    largest: int = 0
    tried: dict[int, bool] = field(default_factory=dict)
    step_seconds: float | None = None
    samples_per_second: float | None = None
    phases: list[str] = field(default_factory=list)
    costs: dict[str, Any] = field(default_factory=dict)


def try_out(job: Job) -> Outcome:
    """Train one batch from the first iteration, and free all memory."""
    torch.cuda.reset_peak_memory_stats()
    outcome = attempt(job)
    gc.collect()
    torch.cuda.empty_cache()
    return outcome


def find_bound(job: Job, limit: int) -> int:
    """Estimate the largest batch whose live peak is below the limit, by a line through two peaks.

    Two iterations are enough: the second one has the optimizer's state. Both batches are larger
    than usual, because the peak of a small batch is in the optimizer's step.
    """
    own = 2 * EVERY[job.workload].samples
    short = replace(job, allocator="default", iterations=2, steady_from=1)
    low, high = (try_out(replace(short, samples=samples)).live for samples in (own, 2 * own))
    slope = (high - low) / own
    return max(1, int(own + (limit - low) / slope))


def largest(trains: Callable[[int], bool], bound: int, tolerance: int) -> int:
    """Search from the bound downwards; return a batch that trains, or 0.

    The result is at most `tolerance` below the largest batch that trains.

    Example:
        >>> largest(lambda batch: batch <= 70, 100, 3)
        70
    """
    works, fails, step = bound, bound + 1, tolerance
    while works > 0 and not trains(works):
        works, fails, step = works - step, works, 2 * step
    works = max(works, 0)
    while fails - works > tolerance:
        middle = (works + fails) // 2
        works, fails = (middle, fails) if trains(middle) else (works, middle)
    return works


def search(job: Job, bound: int, limit: int) -> Found:
    """Search, and return the figures of the largest batch that trained."""
    found = Found(bound or find_bound(job, limit))
    limit_memory(limit)
    outcomes: dict[int, Outcome] = {}

    def trains(batch: int) -> bool:
        outcomes[batch] = try_out(replace(job, samples=batch))
        found.tried[batch] = not outcomes[batch].out_of_memory
        return found.tried[batch]

    found.largest = largest(trains, found.bound, max(1, found.bound // TOLERANCE))
    if found.largest:
        outcome = outcomes[found.largest]
        found.step_seconds = statistics.median(outcome.seconds[job.steady_from :])
        found.samples_per_second = found.largest / found.step_seconds
        found.phases, found.costs = outcome.phases, outcome.costs
    return found


def main() -> int:
    """Run the job of standard input, if there is one; return 1 if it fails, otherwise 0."""
    line = sys.stdin.readline()
    if not line:
        return 0
    fields = json.loads(line)
    bound, limit = fields.pop("bound"), fields.pop("limit")
    iterations, settled = VARYING if EVERY[fields["workload"]].varying else FIXED
    job = Job(**fields, iterations=iterations, steady_from=settled)
    try:
        install_pages(job.allocator)
        make_deterministic(strict=EVERY[job.workload].repeats)
        found = search(job, bound, limit)
    except Exception as error:
        traceback.print_exc()
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return 1
    print(json.dumps(asdict(found)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
