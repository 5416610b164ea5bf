"""Peaks of workloads under several allocators, and largest batches on a card."""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.machine import show

from workloads.job import SAVED_PLAN, Job
from workloads.launch import Stub, WorkerError
from workloads.search import largest

GIB = 1 << 30
COUNTS = ("driver_calls", "requests_that_map", "waits")
"""Counts of a run, per iteration of the last third."""

RECORDING_CARD = 64 << 30
"""Least bytes of the card on which a plan is recorded."""

Row = dict[str, Any]


def train(stub: Stub, job: Job) -> Row:
    """Train, and return the worker's figures.

    For a job with a saved plan, an earlier run records it, in a process of its own on a card of at
    least 64 GiB.

    Raises:
        WorkerError: if a worker fails for a reason other than memory, or no plan was saved.
    """
    if job.contender != SAVED_PLAN:
        return stub.ask(job, "workloads.worker")
    with tempfile.TemporaryDirectory() as folder:
        card = max(job.card, RECORDING_CARD)
        recorded = stub.ask(replace(job, save=folder, card=card), "workloads.worker")
        plan = Path(folder) / f"{job.network}.pgmoplan"
        if recorded["out_of_memory"] or not plan.exists():
            raise WorkerError(f"no plan was saved for {job}: {recorded['error']}")
        return stub.ask(replace(job, plan=str(plan)), "workloads.worker")


def measure_case(stub: Stub, case: Job, contenders: Iterable[str], seeds: int) -> list[Row]:
    """Return one row per contender. The default allocator always runs, for the live bytes."""
    cases = [replace(case, seed=seed) for seed in range(seeds)]
    defaults = [train(stub, replace(one, contender="default")) for one in cases]
    rows = []
    for contender in contenders:
        row = describe(replace(case, contender=contender))
        try:
            outcomes = defaults
            if contender != "default":
                outcomes = [train(stub, replace(one, contender=contender)) for one in cases]
        except WorkerError as error:
            print(error, file=sys.stderr)
            rows.append({**row, "failed": str(error).strip().splitlines()[-1]})
            continue
        row |= figures(outcomes, defaults)
        row |= {"seeds": seeds, "identical": alike(outcomes)}
        rows.append(row)
        show(row)
    return rows


def alike(outcomes: list[Row]) -> bool:
    """Return whether runs have equal figures, except CPU times."""
    return all(one | {"cpu_seconds": outcomes[0]["cpu_seconds"]} == outcomes[0] for one in outcomes)


def describe(job: Job) -> Row:
    """Return the fields of a row that describe its job."""
    return {
        "network": job.network,
        "lengths": job.lengths,
        "recompute": job.recompute,
        "train": job.train,
        "batch": job.batch,
        "iterations": job.iterations,
        "allocator": job.contender,
    }


def figures(outcomes: list[Row], defaults: list[Row]) -> Row:
    """Return the figures of the seed with the worst efficiency.

    Counts are the worst of all seeds. The ratio of CPU times is the median.
    """
    live = [default["requested"] for default in defaults]
    efficiencies = [size / one["reserved"] for size, one in zip(live, outcomes, strict=True)]
    at = min(range(len(outcomes)), key=efficiencies.__getitem__)
    row = {"live": live[at], "efficiency": efficiencies[at], **outcomes[at]}
    row["out_of_memory"] = any(one["out_of_memory"] for one in outcomes)
    for count in COUNTS:
        row[count] = max((one[count] for one in outcomes if one[count] is not None), default=None)
    pairs = zip(outcomes, defaults, strict=True)
    row["cpu_over_default"] = statistics.median(
        one["cpu_seconds"] / default["cpu_seconds"] for one, default in pairs
    )
    del row["torch"]
    return row


def largest_batches(
    stub: Stub, case: Job, contenders: Iterable[str], card: int, step: int = 1
) -> list[Row]:
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
        return train(stub, replace(case, batch=steps * step))["requested"] <= card

    bound = largest(live_fits, guess=16)
    rows = [{**describe(case), "allocator": "bound", "batch": bound * step, "card": card}]
    for contender in contenders:
        said, outcomes = "", dict[int, Row]()

        def trains(
            steps: int, contender: str = contender, outcomes: dict[int, Row] = outcomes
        ) -> bool:
            nonlocal said
            job = replace(case, batch=steps * step, card=card, contender=contender)
            outcomes[steps] = outcome = train(stub, job)
            said = outcome["error"] or said
            return not outcome["out_of_memory"]

        row = {**describe(case), "allocator": contender, "card": card, "batch": None}
        try:
            # No contender exceeds the bound, and most end just below it.
            found = largest(trains, guess=bound + 1)
            row["batch"] = step * found
            row |= {count: outcomes.get(found, {}).get(count) for count in COUNTS}
            row["error_beyond"] = said.partition("\n")[0]
        except WorkerError as error:
            print(error, file=sys.stderr)
            row["failed"] = str(error).strip().splitlines()[-1]
        rows.append(row)
    for row in rows:
        show(row)
    return rows


def measure_suite(
    stub: Stub,
    arguments: argparse.Namespace,
    contenders: Sequence[str],
    cases: Iterable[Job],
    searches: Iterable[Job],
    batches: Callable[[Job], tuple[int, int]],
) -> Row:
    """Measure peaks and largest batches of networks, several at a time.

    Args:
        stub: the stub runtime.
        arguments: `only`, "memory" or "batch" for one of the two; `seeds`; `jobs`, runs at a time.
        contenders: contenders of all measurements.
        cases: workloads whose peaks are measured.
        searches: workloads for which the largest batch is searched for.
        batches: returns the card's bytes and the step between batches of a search.
    """
    rows: list[Row] = []
    found: list[Row] = []
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
    torch = train(stub, Job("gpt", small=True, batch=1, iterations=1))["torch"]
    return {"torch": torch, "rows": rows, "largest_batch": found}
