"""Peak reserved memory: default allocator, expandable segments, pages, pgmo, pgmo from a plan.

    python bench/gpu/memory.py --seconds 200
    python bench/gpu/memory.py --quick              a tiny network

Every run is a fresh process with the same seed and deterministic algorithms. Several run at a time,
because memory does not depend on time. Efficiency is the program's live peak under the default
allocator over the contender's reserved peak: of the whole run, recording included, and of the
iterations after a session has settled. Losses and final weights are compared bit for bit. Each run
also counts the driver calls of pages, requests that map and waits, per iteration of the last third,
and the CPU time of the process in all iterations.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _launch import (
    Budget,
    OutOfTimeError,
    WorkerError,
    at_once,
    budget_of,
    device_or_exit,
    gpu_parser,
    launch,
    write_gpu_result,
)
from _worker import Job, Outcome
from support.machine import show

CONTENDERS = ("default", "expandable", "pages", "pgmo", "pgmo_saved_plan")
PEERS = ("default", "expandable")
GOAL = {True: 0.99, False: 0.97}
"""Least efficiency after a session has settled, by whether the workload is dense."""

FIXED, VARYING = (12, 8), (26, 18)
"""Number of iterations, and the first one after a session has settled."""

LARGEST_RUN = 16 << 30
"""Bytes reserved for a run. They limit the number of runs at a time."""


@dataclass(frozen=True)
class Run:
    """One contender's run of a workload, or the reason why there is none."""

    contender: str
    outcome: Outcome | None = None
    error: str = ""
    out_of_time: bool = False


def run(contender: str, job: Job, budget: Budget) -> Run:
    """Run one job within the time budget."""
    try:
        return Run(contender, launch(job, budget))
    except (WorkerError, OutOfTimeError) as error:
        return Run(contender, error=str(error), out_of_time=isinstance(error, OutOfTimeError))


def run_planned(job: Job, budget: Budget) -> Run:
    """Run pgmo from a plan that another process saved.

    The saving process has no row: a session that saves its plan installs it even if the plan needs
    more pages than windows.
    """
    with TemporaryDirectory() as folder:
        saving = run("pgmo_saved_plan", replace(job, allocator="pgmo", save=folder), budget)
        plan = Path(folder, f"{job.workload}.pgmoplan")
        if saving.outcome is None or not plan.exists():
            return replace(saving, outcome=None, error=saving.error or "no plan was saved")
        loading = replace(job, allocator="pgmo", plan=str(plan))
        return run("pgmo_saved_plan", loading, budget)


def summarise(workload: str, dense: bool, runs: list[Run], again: Run | None) -> dict[str, Any]:
    """Return one entry with a row per contender; no rows without a run of the default allocator."""
    outcomes = {run.contender: run.outcome for run in runs if run.outcome is not None}
    entry: dict[str, Any] = {
        "workload": workload,
        "dense": dense,
        "errors": {run.contender: run.error for run in runs if run.error},
        "failed": any(run.error and not run.out_of_time for run in runs),
        "rows": [],
    }
    default = outcomes.get("default")
    if default is None:
        return entry
    results = {(*one.losses, one.digest) for one in outcomes.values()}
    entry["identical"] = len(results) == 1
    if again is not None and again.outcome is not None:
        entry["deterministic"] = again.outcome.losses == default.losses
    peers = [outcomes[name].reserved_steady for name in PEERS if name in outcomes]
    for name, one in outcomes.items():
        entry["rows"].append(
            {
                "contender": name,
                "samples": one.samples,
                "live": default.live,
                "live_steady": default.live_steady,
                "reserved": one.reserved,
                "reserved_steady": one.reserved_steady,
                "efficiency": default.live / max(1, one.reserved),
                "efficiency_steady": default.live_steady / max(1, one.reserved_steady),
                "reserved_against_better_peer": one.reserved_steady / max(1, min(peers)),
                **one.costs,
                "cpu_over_default": cpu_ratio(one, default),
                "expandable": one.expandable,
                "hit_bytes": one.hit_bytes,
                "phases": one.phases,
                "summary": one.summary,
                "out_of_memory": one.out_of_memory,
                "losses": one.losses,
            }
        )
    return entry


def cpu_ratio(one: Outcome, default: Outcome) -> float | None:
    """Return the CPU time over the default's; None if one of both ran out of memory."""
    if not one.costs or not default.costs:
        return None
    return float(one.costs["cpu_seconds"] / default.costs["cpu_seconds"])


def missed(entry: dict[str, Any]) -> list[str]:
    """Return a sentence for each goal that an entry misses."""
    name, goal = entry["workload"], GOAL[entry["dense"]]
    found = []
    for row in entry["rows"]:
        if row["contender"] not in PEERS:
            # With a saved plan nothing is recorded, so the whole run counts.
            whole = row["contender"] == "pgmo_saved_plan"
            reached = row["efficiency" if whole else "efficiency_steady"]
            if reached < goal:
                found.append(f"{name}, {row['contender']}: {reached:.3f} < {goal}")
            if row["reserved_against_better_peer"] > 1:
                share = row["reserved_against_better_peer"]
                found.append(f"{name}, {row['contender']}: {share:.3f} of the better peer's memory")
    return found


def measure(names: list[str], budget: Budget, workers: int) -> list[dict[str, Any]]:
    """Run all contenders of the workloads, in order of interest."""
    from _workloads import EVERY

    def job(name: str) -> Job:
        iterations, steady = VARYING if EVERY[name].varying else FIXED
        return Job(name, iterations=iterations, steady_from=steady)

    entries = []
    with ThreadPoolExecutor(workers) as pool:
        started = {
            name: [
                *(
                    pool.submit(run, one, replace(job(name), allocator=one), budget)
                    for one in CONTENDERS[:-1]
                ),
                pool.submit(run_planned, job(name), budget),
            ]
            for name in names
        }
        for name, futures in started.items():
            runs = [future.result() for future in futures]
            entry = summarise(name, EVERY[name].dense, runs, None)
            if not entry.get("identical", True):  # is the workload itself to blame?
                again = run("default", job(name), budget)
                entry = summarise(name, EVERY[name].dense, runs, again)
            for row in entry["rows"]:
                show({"workload": name, **row})
            for contender, error in entry["errors"].items():
                show({"workload": name, "contender": contender, "error": error})
            entries.append(entry)
    return entries


def main() -> None:
    parser = gpu_parser(__doc__, 600)
    parser.add_argument("--workload", action="append")
    parser.add_argument("--at-once", type=int, default=0, help="runs at a time")
    arguments = parser.parse_args()
    device_or_exit()
    import _workloads

    workloads = _workloads.QUICK if arguments.quick else _workloads.WORKLOADS
    unknown = set(arguments.workload or ()) - workloads.keys()
    if unknown:
        parser.error(f"no workload {sorted(unknown)[0]!r}; there are {', '.join(workloads)}")
    names = arguments.workload or list(workloads)
    workers = arguments.at_once or at_once(8, LARGEST_RUN)
    entries = measure(names, budget_of(arguments), workers)
    goals = [goal for entry in entries for goal in missed(entry)]
    print(f"{len(goals)} goals missed" + "".join(f"\n  {goal}" for goal in goals))
    result = {
        "runs_at_once": workers,
        "iterations": {"fixed": FIXED, "varying": VARYING},
        "goals_missed": goals,
        "workloads": {name: _describe(workloads[name]) for name in names},
        "entries": entries,
    }
    write_gpu_result("memory", result, arguments.output, quick=arguments.quick)
    failed = [
        entry["workload"]
        for entry in entries
        if not entry.get("identical", True) and entry.get("deterministic", True)
    ]
    failed += [entry["workload"] for entry in entries if entry["failed"]]
    if failed:
        sys.exit(f"different results, or failures: {', '.join(dict.fromkeys(failed))}")


def _describe(workload: Any) -> dict[str, Any]:
    fields = {key: getattr(workload, key) for key in ("samples", "length", "varying")}
    return {**fields, "kind": workload.kind, "dtype": str(workload.dtype)}


if __name__ == "__main__":
    main()
