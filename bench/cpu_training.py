"""Training on the CPU: pgmo against glibc's malloc, jemalloc, tcmalloc and mimalloc.

    python bench/cpu_training.py --repetitions 5
    python bench/cpu_training.py --quick            one network, without the other allocators

Every run is a fresh process that trains one of `cpu_networks`. The other allocators are preloaded
(Debian: libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0). Repetitions are interleaved in
alternating order, so that a slow minute of the machine affects all contenders. The results are
medians over repetitions of the median step time, and of the peak resident memory.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cpu_networks import NAMES
from cpu_networks.training import ENVIRONMENT, STEADY_FROM, Job, Outcome, launch
from support.agreement import Agreement, agreement
from support.machine import Seconds, add_common_options, show, write_result

LIBRARIES = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}
OURS = ("pgmo", "pgmo_saved_plan")
FOLDERS = (
    f"/usr/lib/{os.uname().machine}-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
)


@dataclass(frozen=True)
class Contender:
    """A way to allocate: a library to preload, or pgmo over glibc."""

    name: str
    preload: str = ""

    def job(self, network: str, iterations: int, folder: str) -> Job:
        job = Job(network, "default", iterations)
        if self.name == "pgmo":
            return replace(job, mode="pgmo", save_as=f"{folder}/{network}.pgmoplan")
        if self.name == "pgmo_saved_plan":
            return replace(job, mode="pgmo", plan=f"{folder}/{network}.pgmoplan")
        return job

    def run(self, network: str, iterations: int, folder: str) -> Outcome:
        environment = {"LD_PRELOAD": self.preload} if self.preload else {}
        return launch(self.job(network, iterations, folder), environment=environment)


def find_library(name: str) -> str | None:
    """Return the library's path; None if it is not installed or cannot be preloaded."""
    for folder in FOLDERS:
        path = Path(folder) / name
        if path.exists():
            probe = [sys.executable, "-c", "import sys; print(open('/proc/self/maps').read())"]
            environment = {**os.environ, "LD_PRELOAD": str(path)}
            shown = subprocess.run(probe, env=environment, capture_output=True, text=True)
            return str(path) if path.resolve().name in shown.stdout else None
    return None


def contenders(wanted: list[str]) -> tuple[list[Contender], list[str]]:
    """Return the contenders that this machine can run, and a note for each missing library."""
    found, notes = [], []
    for name in wanted:
        if name in LIBRARIES:
            path = find_library(LIBRARIES[name])
            if path is None:
                notes.append(f"{name} left out: {LIBRARIES[name]} cannot be preloaded here")
                continue
            found.append(Contender(name, path))
        else:
            found.append(Contender(name))
    return found, notes


def schedule(players: list[Contender], repetitions: int) -> Iterator[Contender]:
    """Yield the contenders once per repetition, in reverse order in every second one.

    In the first repetition, pgmo saves the plan that pgmo_saved_plan loads, so it must run first.
    """
    for repetition in range(repetitions):
        yield from players if repetition % 2 == 0 else reversed(players)


def measure(
    network: str, players: list[Contender], repetitions: int, iterations: int
) -> dict[str, list[Outcome]]:
    outcomes: dict[str, list[Outcome]] = {player.name: [] for player in players}
    with tempfile.TemporaryDirectory() as folder:
        for player in schedule(players, repetitions):
            outcome = player.run(network, iterations, folder)
            outcomes[player.name].append(outcome)
            step = statistics.median(outcome.seconds[STEADY_FROM:])
            show({"network": network, "allocator": player.name, "seconds": step})
    return outcomes


def agree(network: str, outcomes: dict[str, list[Outcome]], iterations: int) -> Agreement:
    """Compare the bits of all runs; train once more without pgmo if they differ."""
    runs = [run for repeated in outcomes.values() for run in repeated]
    again = Job(network, "default", iterations)
    plain, *others = (run.results for run in runs)
    return agreement(plain, others, lambda: launch(again).results)


def summarise(
    network: str, outcomes: dict[str, list[Outcome]], agreed: Agreement
) -> list[dict[str, Any]]:
    """Return a row per contender: medians over repetitions, ratios to the other step times."""
    steps = {
        name: Seconds.of([statistics.median(run.seconds[STEADY_FROM:]) for run in runs])
        for name, runs in outcomes.items()
    }
    rows = []
    for name, runs in outcomes.items():
        row: dict[str, Any] = {
            "network": network,
            "allocator": name,
            "step_seconds": steps[name].median,
            "step_seconds_fastest": steps[name].fastest,
            "step_seconds_slowest": steps[name].slowest,
            "repetitions": steps[name].repetitions,
            "rss": statistics.median(run.rss for run in runs),
            "rss_steady": statistics.median(run.rss_steady for run in runs),
            "threads": runs[0].threads,
            "torch": runs[0].torch,
            "identical": agreed is Agreement.IDENTICAL,
            "agreement": agreed,
            "time_against": {
                other: steps[name].median / steps[other].median for other in steps if other != name
            },
        }
        planned = runs[0].planned
        if planned is not None:
            row.update(planned)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = ("glibc", *LIBRARIES, *OURS)
    parser.add_argument("--network", choices=NAMES, action="append")
    parser.add_argument("--allocator", choices=names, action="append")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    add_common_options(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.network = arguments.network or ["lstm"]
        arguments.allocator = arguments.allocator or ["glibc", *OURS]
        arguments.repetitions = 1
        arguments.iterations = STEADY_FROM + 1
    wanted = arguments.allocator or list(names)
    if "pgmo_saved_plan" in wanted and "pgmo" not in wanted:
        parser.error("pgmo_saved_plan needs the plan that pgmo saves: add --allocator pgmo")
    players, notes = contenders([name for name in names if name in wanted])
    for note in notes:
        print(note, file=sys.stderr)
    rows: list[dict[str, Any]] = []
    for network in arguments.network or NAMES:
        outcomes = measure(network, players, arguments.repetitions, arguments.iterations)
        agreed = agree(network, outcomes, arguments.iterations)
        rows.extend(summarise(network, outcomes, agreed))
    for row in rows:
        show(row)
    write_result(
        "cpu_training",
        {
            "iterations": arguments.iterations,
            "notes": notes,
            "load_average_at_end": os.getloadavg()[0],
            "environment": {
                key: value
                for key, value in {**os.environ, **ENVIRONMENT}.items()
                if key.startswith(("OMP_", "MKL_"))
            },
            "rows": rows,
        },
        arguments.output,
        quick=arguments.quick,
    )
    for network in dict.fromkeys(row["network"] for row in rows if not row["identical"]):
        print(f"{network}: losses or final weights differ", file=sys.stderr)
    if any(row["agreement"] == Agreement.DIFFERENT for row in rows):
        sys.exit(
            "losses or final weights differ between allocators, and plain PyTorch repeats itself"
        )


if __name__ == "__main__":
    main()
