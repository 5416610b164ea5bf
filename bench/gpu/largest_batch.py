"""The largest batch that trains within a memory limit in a first run, and samples per second.

    python bench/gpu/largest_batch.py --seconds 120 --limit 16
    python bench/gpu/largest_batch.py --sekiyama --seconds 180
    python bench/gpu/largest_batch.py --quick           a tiny network

The contenders are the default allocator, expandable segments, pgmo's pages without a session, and
pgmo without a saved plan, around the whole run. Each searches in a process of its own, from `bound`
downwards, with a tolerance of three percent. The bound is the largest batch whose live peak is
below the limit, which no allocator can beat. The speed is that of the attempt with the largest
batch that trained. While a process measures, the next processes only import modules.

With `--sekiyama`, the networks are the five of Sekiyama et al. 2018 in float32, with cuDNN and its
workspaces, and sentences of one length.
"""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from _launch import (
    HERE,
    Budget,
    OutOfTimeError,
    WorkerError,
    budget_of,
    device_or_exit,
    environment,
    gpu_parser,
    write_gpu_result,
)
from support.machine import show

CONTENDERS = ("default", "pgmo", "pages", "expandable")
"""Contenders in their order: if the time is over, the last ones are left out."""

QUICK_LIMIT = 0.5
"""Memory limit of a quick run, in GiB."""

AHEAD = 2
"""Number of processes that start while another one measures."""

Case = tuple[str, str]
"""A workload and a contender."""


def start(contender: str) -> "subprocess.Popen[str]":
    """Start a process that imports its modules, and waits for its job."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "_batch_worker.py")],
        env=environment(contender),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(cases: Iterable[Case]) -> Iterator[tuple[Case, "subprocess.Popen[str]"]]:
    """Yield each case with its process; kill the waiting processes at the end."""
    waiting: deque[tuple[Case, subprocess.Popen[str]]] = deque()
    try:
        for case in cases:
            waiting.append((case, start(case[1])))
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, worker in waiting:
            worker.kill()


def ask(worker: "subprocess.Popen[str]", job: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Give a process its job, and return its result.

    Raises:
        WorkerError: if the process fails, or takes too long.
        OutOfTimeError: if the budget is over before the process ends.
    """
    try:
        timeout = budget.for_one()
        output, errors = worker.communicate(json.dumps(job) + "\n", timeout)
    except subprocess.TimeoutExpired as error:
        if timeout < budget.longest:
            raise OutOfTimeError from error
        raise WorkerError(f"took longer than {timeout:.0f} s") from error
    finally:
        worker.kill()
    try:
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError) as error:
        last = " | ".join(errors.splitlines()[-3:])
        raise WorkerError(f"exit code {worker.returncode}: {last}") from error
    if "error" in found:
        raise WorkerError(found["error"])
    return found


def measure(cases: Sequence[Case], limit: int, budget: Budget) -> list[dict[str, Any]]:
    """Return one entry per case. Contenders of a workload have one bound."""
    bounds: dict[str, int] = {}
    entries = []
    for (workload, contender), worker in started(cases):
        entry: dict[str, Any] = {"workload": workload, "contender": contender, "errors": []}
        job = {"workload": workload, "allocator": contender, "limit": limit}
        try:
            entry |= ask(worker, job | {"bound": bounds.get(workload, 0)}, budget)
            bounds[workload] = entry["bound"]
        except WorkerError as error:
            entry["errors"].append(str(error))
        except OutOfTimeError as error:
            entry["left_out"] = str(error)
        entries.append(entry)
        show(entry | {"error": "; ".join(entry["errors"])})
    return entries


def main() -> None:
    """Search for the largest batches, and measure their speed."""
    parser = gpu_parser(__doc__, 900)
    parser.add_argument("--sekiyama", action="store_true", help="networks of Sekiyama et al. 2018")
    parser.add_argument("--workload", action="append")
    parser.add_argument("--limit", type=float, default=16, help="GiB that torch may reserve")
    arguments = parser.parse_args()
    device_or_exit()
    from _workloads import BATCHES, QUICK, SEKIYAMA

    name, wanted, contenders = "largest_batch", BATCHES, CONTENDERS
    if arguments.sekiyama:
        name, wanted, contenders = "sekiyama", SEKIYAMA, CONTENDERS[:-1]
    if arguments.quick:
        wanted, arguments.limit, contenders = QUICK, QUICK_LIMIT, CONTENDERS[:-1]
    limit = int(arguments.limit * 2**30)
    workloads = arguments.workload or wanted
    cases = [(workload, contender) for workload in workloads for contender in contenders]
    entries = measure(cases, limit, budget_of(arguments))
    figures = {"limit_bytes": limit, "entries": entries}
    write_gpu_result(name, figures, arguments.output, quick=arguments.quick)
    if any(entry["errors"] for entry in entries):
        sys.exit("a run failed for another reason than memory")


if __name__ == "__main__":
    main()
