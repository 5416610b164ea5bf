"""Peaks of workloads under several allocators, and largest batches on a card."""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from workloads.job import Job, Outcome
from workloads.launch import Stub, WorkerError
from workloads.search import largest

GIB = 1 << 30
COUNTS = ("driver_calls", "requests_that_map", "waits")
"""Counts of an outcome, per iteration of the last third."""


def measure_case(
    stub: Stub, case: Job, contenders: Iterable[str], seeds: int
) -> list[dict[str, Any]]:
    """Return one row per contender. The default allocator always runs, for the live bytes."""
    cases = [replace(case, seed=seed) for seed in range(seeds)]
    defaults = [stub.run(replace(one, contender="default")) for one in cases]
    rows = []
    for contender in contenders:
        row: dict[str, Any] = describe(replace(case, contender=contender))
        try:
            outcomes = defaults
            if contender != "default":
                outcomes = [stub.run(replace(one, contender=contender)) for one in cases]
        except WorkerError as error:
            print(error, file=sys.stderr)
            rows.append({**row, "failed": str(error).strip().splitlines()[-1]})
            continue
        row |= figures(outcomes, defaults)
        row |= {"seeds": seeds, "identical": all(one == outcomes[0] for one in outcomes)}
        rows.append(row)
        print(progress(row), file=sys.stderr)
    return rows


def describe(job: Job) -> dict[str, Any]:
    """Return the first fields of a row."""
    return {
        "network": job.network,
        "lengths": job.lengths,
        "recompute": job.recompute,
        "train": job.train,
        "batch": job.batch,
        "iterations": job.iterations,
        "allocator": job.contender,
    }


def figures(outcomes: list[Outcome], defaults: list[Outcome]) -> dict[str, Any]:
    """Return the figures of the seed with the worst efficiency.

    Counts and hit rates are the worst of all seeds. The ratio of CPU times is the median.
    """
    live = [default.requested for default in defaults]
    efficiencies = [bytes_ / one.reserved for bytes_, one in zip(live, outcomes, strict=True)]
    at = min(range(len(outcomes)), key=efficiencies.__getitem__)
    worst = outcomes[at]
    row = {"live": live[at], "efficiency": efficiencies[at], **worst.as_dict()}
    row["out_of_memory"] = any(one.out_of_memory for one in outcomes)
    for count in COUNTS:
        found = [value for one in outcomes if (value := getattr(one, count)) is not None]
        row[count] = max(found, default=None)
    pairs = zip(outcomes, defaults, strict=True)
    row["cpu_over_default"] = statistics.median(a.cpu_seconds / b.cpu_seconds for a, b in pairs)
    hits = [one.hit_bytes_rate for one in outcomes if one.hit_bytes_rate is not None]
    row["hit_bytes_rate"] = min(hits, default=None)
    del row["torch"]
    return row


def progress(row: dict[str, Any]) -> str:
    """Return a status line for a row."""
    ours = ""
    if row["hit_bytes_rate"] is not None:
        ours = f"  hits {row['hit_bytes_rate']:.2%}  replans {row['replans']}"
    if row["driver_calls"] is not None:
        ours += f"  calls {row['driver_calls']:.0f}"
    ours += f"  CPU {row['cpu_over_default']:.2f}"
    recompute = "recompute" if row["recompute"] else "" if row["train"] else "inference"
    full = "  OUT OF MEMORY" if row["out_of_memory"] else ""
    return (
        f"{row['network']:26}{row['lengths']:7}{recompute:10}{row['batch']:4} "
        f"{row['allocator']:16}{row['live'] / GIB:7.2f} GiB {row['efficiency']:6.3f}{ours}{full}"
    )


def largest_batches(
    stub: Stub, case: Job, contenders: Iterable[str], card: int, step: int = 1
) -> list[dict[str, Any]]:
    """Search for the largest batches; return one row for the bound, and one per contender.

    The bound is the largest batch whose live bytes alone fit on the card. A contender's row has its
    counts at its largest batch.

    Args:
        stub: the stub runtime.
        case: the workload.
        contenders: contenders of the search.
        card: bytes of device memory.
        step: only multiples of this batch are tried.
    """

    def live_fits(steps: int) -> bool:
        return stub.run(replace(case, batch=steps * step)).requested <= card

    bound = largest(live_fits, guess=16)
    rows = [{**describe(case), "allocator": "bound", "batch": bound * step, "card": card}]
    for contender in contenders:
        said, outcomes = "", dict[int, Outcome]()

        def trains(
            steps: int, contender: str = contender, outcomes: dict[int, Outcome] = outcomes
        ) -> bool:
            nonlocal said
            job = replace(case, batch=steps * step, card=card, contender=contender)
            outcomes[steps] = outcome = stub.run(job)
            said = outcome.error or said
            return not outcome.out_of_memory

        row = {**describe(case), "allocator": contender, "card": card, "batch": None}
        try:
            # No contender exceeds the bound, and most end just below it.
            found = largest(trains, guess=bound + 1)
            row["batch"] = step * found
            row |= {count: getattr(outcomes.get(found), count, None) for count in COUNTS}
            row["error_beyond"] = said.partition("\n")[0]
        except WorkerError as error:
            print(error, file=sys.stderr)
            row["failed"] = str(error).strip().splitlines()[-1]
        rows.append(row)
    for row in rows:
        recompute = "recompute" if row["recompute"] else ""
        print(
            f"{row['network']:26}{row['lengths']:7}{recompute:10}{row['allocator']:16}"
            f"largest batch {row['batch']}",
            file=sys.stderr,
        )
    return rows


def measure_suite(
    stub: Stub,
    arguments: argparse.Namespace,
    contenders: Sequence[str],
    cases: Iterable[Job],
    searches: Iterable[Job],
    batches: Callable[[Job], tuple[int, int]],
) -> dict[str, Any]:
    """Measure peaks and largest batches of networks, several at a time.

    Args:
        stub: the stub runtime.
        arguments: `only`, "memory" or "batch" for one of both; `seeds`; `jobs`, runs at a time.
        contenders: contenders of all measurements.
        cases: workloads whose peaks are measured.
        searches: workloads whose largest batch is looked for.
        batches: returns the card's bytes and the step between batches of a search.
    """
    rows: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        if arguments.only != "batch":
            parts = pool.map(
                lambda case: measure_case(stub, case, contenders, arguments.seeds), cases
            )
            rows = [row for part in parts for row in part]
        if arguments.only != "memory":
            parts = pool.map(
                lambda case: largest_batches(stub, case, contenders, *batches(case)), searches
            )
            found = [row for part in parts for row in part]
    torch = stub.run(Job("gpt", small=True, batch=1, iterations=1)).torch
    return {"torch": torch, "rows": rows, "largest_batch": found}
