"""Reserved memory of ranks over NCCL: default allocator, expandable segments, pgmo.

    python bench/gpu/ranks.py --seconds 90
    python bench/gpu/ranks.py --quick              a small network

GPT-2 medium under DDP, and under FSDP2 with parameters in bfloat16, on one device, and on two if
the machine has two or more. Each rank is a process, and all ranks of a run exist at the same time.
Efficiency is the live peak under the default allocator over the reserved peak, of the worst rank:
of the whole run, and of the iterations after a session has settled. Losses and final weights are
compared bit for bit. On the stub, the rank is one of eight in a fake process group.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _launch import (
    HERE,
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

ENGINES = ("ddp", "fsdp2")
CONTENDERS = ("default", "expandable", "pgmo")
MEDIUM = {"length": 512, "batch": 8, "small": False}
QUICK = {"length": 128, "batch": 4, "small": True}
ITERATIONS, STEADY_FROM = 12, 8
STUB_WORLD = 8
_STUB = bool(os.environ.get("PGMO_FAKECUDA"))


def launch(job: dict[str, Any], world: int, budget: Budget) -> list[dict[str, Any]]:
    """Run all ranks of a job, and return the measurements of each.

    Raises:
        WorkerError: if a rank fails, or takes too long.
        OutOfTimeError: if the budget is over before the ranks end.
    """
    command = (str(HERE / "_rank_worker.py"), json.dumps(job))
    with TemporaryDirectory() as folder, ThreadPoolExecutor(world) as pool:
        running = [
            pool.submit(
                run_worker,
                command,
                job["allocator"],
                budget,
                settings={
                    "RANK": str(rank),
                    "WORLD_SIZE": str(STUB_WORLD if _STUB else world),
                    "LOCAL_RANK": str(rank),
                    "MEETING": str(Path(folder, "meeting")),
                },
            )
            for rank in range(1 if _STUB else world)
        ]
    errors = [error for one in running if (error := one.exception()) is not None]
    if errors:
        # The other ranks wait for the one that fails, so only its own message has the cause.
        raise min(errors, key=lambda error: isinstance(error, TooLongError | OutOfTimeError))
    return [json.loads(one.result().stdout.splitlines()[-1]) for one in running]


def row(
    contender: str, ranks: list[dict[str, Any]], default: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the figures of a contender's worst rank; without comparisons if `default` is empty."""
    own = {
        "contender": contender,
        "reserved": max(one["reserved"] for one in ranks),
        "reserved_steady": max(one["reserved_steady"] for one in ranks),
        "seconds_per_step": max(one["seconds_per_step"] for one in ranks),
        "phases": [one["phase"] for one in ranks],
    }
    if not default:
        return own
    pairs = list(zip(ranks, default, strict=True))
    return own | {
        "live": max(one["live"] for one in default),
        "efficiency": min(base["live"] / max(1, one["reserved"]) for one, base in pairs),
        "efficiency_steady": min(
            base["live_steady"] / max(1, one["reserved_steady"]) for one, base in pairs
        ),
        "identical": all(
            (one["losses"], one["weights"]) == (base["losses"], base["weights"])
            for one, base in pairs
        ),
    }


def measure(engine: str, world: int, size: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Run all contenders on one engine, and print the figures or the error of each."""
    entry: dict[str, Any] = {"engine": engine, "world": world, "rows": [], "errors": {}}
    default: list[dict[str, Any]] = []
    for contender in CONTENDERS:
        job = {
            **size,
            "engine": engine,
            "allocator": contender,
            "iterations": ITERATIONS,
            "steady_from": STEADY_FROM,
        }
        try:
            ranks = launch(job, world, budget)
        except (WorkerError, OutOfTimeError) as error:
            entry["errors"][contender] = str(error)
            show({"engine": engine, "contender": contender, "error": str(error)})
            continue
        if contender == "default":
            default = ranks
        made = row(contender, ranks, default)
        entry["rows"].append(made)
        show({"engine": engine, "world": world, **made})
    return entry


def main() -> None:
    parser = gpu_parser(__doc__, 300)
    parser.add_argument("--engine", action="append", choices=ENGINES, help="repeat for more")
    arguments = parser.parse_args()
    device_or_exit()
    import torch

    size = QUICK if arguments.quick else MEDIUM
    worlds = [1] if _STUB or torch.cuda.device_count() < 2 else [1, 2]
    budget = budget_of(arguments)
    engines = arguments.engine or ENGINES
    entries = [measure(engine, world, size, budget) for world in worlds for engine in engines]
    result = {
        "network": size,
        "iterations": ITERATIONS,
        "steady_from": STEADY_FROM,
        "fake_world": STUB_WORLD if _STUB else None,
        "entries": entries,
    }
    write_gpu_result("ranks", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
