"""Arenas over the lower bound and planning times of pgmo and other packers.

    python bench/packing.py --instances DIR     every *.csv below DIR
    python bench/packing.py                     generated instances instead
    python bench/packing.py --quick             one instance of each part
    PGMO_INSTANCES=DIR make bench               the same as --instances

The part `instances` has the files, or dissected arenas whose best arena is known. The part
`networks` has profiles recorded from the networks of `cpu_networks` at ten times their size, whose
time is a circle (needs torch).

Each part is a table of contestants, each in a process of its own, with the same time limit and
number of threads: pgmo, pgmo with `effort="fast"`, the heuristic of Sekiyama et al. 2018,
omnimalloc (`omni`, `supermalloc`), and OR-Tools' CP-SAT, which starts from the heuristic. Peers
that are not installed are left out (pip install omnimalloc ortools). Figures are medians of
`--runs` runs with different seeds. `peak` is arena / max load. `pgmo_seconds_to_same_peak` are the
seconds after which pgmo had reached the peer's peak. Parts that are not run keep their earlier
results.
"""

import argparse
import importlib.util
import json
import os
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packers.contestants import CONTESTANTS, Run, run
from packers.dissected import dissected
from packers.large_networks import record_large_networks
from support.machine import print_earlier, result_path, show, table_parser, write_result

from pgmo.packing.csv_file import read_csv
from pgmo.packing.lower_bound import max_load
from pgmo.packing.problem import Problem

PARTS = ("instances", "networks")
FIRST = "pgmo"  # the contestant with which all others are compared
THREADS = len(os.sched_getaffinity(0))


def from_folder(folder: Path) -> Iterator[tuple[str, Problem]]:
    paths = sorted(folder.rglob("*.csv"))
    if not paths:
        raise SystemExit(f"{folder}: no *.csv below it; check the path")
    for path in paths:
        yield str(path.relative_to(folder).with_suffix("")), read_csv(path).problem


def generated() -> Iterator[tuple[str, Problem]]:
    for blocks in (50, 150, 300, 1000):
        yield f"dissected {blocks}", dissected(blocks, seed=blocks)


def large_networks(*, quick: bool) -> Iterator[tuple[str, Problem]]:
    if importlib.util.find_spec("torch") is None:
        print("networks: torch is not installed, left out", flush=True)
        return
    for name, profile in record_large_networks(1, ["lstm"]) if quick else record_large_networks():
        yield name, Problem.from_profile(profile, 64)[0]


def compare(
    part: str, name: str, problem: Problem, args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    bound = max_load(problem)
    ours: list[Run] = []
    for contestant in args.contestants:
        entry = CONTESTANTS[contestant]
        if (problem.period and not entry.circles) or len(problem) > entry.most_blocks:
            continue
        runs = []
        for seed in range(args.runs):
            runs.append(run(contestant, problem, args.time_limit, THREADS, seed))
            if runs[-1].arena is None or runs[-1].seconds > 1.5 * args.time_limit:
                break  # the other runs would fail or be as slow
        if contestant == FIRST:
            ours = runs
        found = [one.arena for one in runs if one.arena is not None]
        arena = statistics.median(found) if found else None
        row = {
            "part": part,
            "instance": name,
            "blocks": len(problem),
            "max_load": bound,
            "contestant": contestant,
            "arena": arena,
            "peak": arena / bound if arena is not None else None,
            "seconds": statistics.median(one.seconds for one in runs),
            "runs": len(runs),
            "why": runs[-1].why,
            "pgmo_seconds_to_same_peak": until(ours, arena) if contestant != FIRST else None,
        }
        show(row)
        yield row


def until(runs: list[Run], arena: float | None) -> float | None:
    """Return the median seconds in which runs reach an arena; None unless most runs reach it."""
    if arena is None or not runs:
        return None
    times = [min((at for at, got in one.trace if got <= arena), default=None) for one in runs]
    reached = sorted(at for at in times if at is not None)
    return reached[(len(runs) - 1) // 2] if 2 * len(reached) > len(runs) else None


def tables(result: dict[str, Any]) -> str:
    """Return the tables of all parts."""
    return "\n\n".join(table(part["rows"]) for part in result["parts"].values())


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown: peak over max load, and seconds."""
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    lines = [
        "| instance | blocks | " + " | ".join(names) + " |",
        "|---|---:|" + "---|" * len(names),
    ]
    for part, instance in dict.fromkeys((row["part"], row["instance"]) for row in rows):
        mine = {
            row["contestant"]: row
            for row in rows
            if (row["part"], row["instance"]) == (part, instance)
        }
        cells = [cell(mine.get(name)) for name in names]
        blocks = next(iter(mine.values()))["blocks"]
        lines.append(f"| {instance} | {blocks} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["peak"] is None:
        return f"none, {row['seconds']:.1f} s"
    seconds = row["seconds"]
    return f"{row['peak']:.4f}, " + (f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s")


def main() -> None:
    parser = table_parser(__doc__)
    default = os.environ.get("PGMO_INSTANCES")
    parser.add_argument("--instances", type=Path, default=Path(default) if default else None)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--time-limit", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="instances with it in their name")
    installed = [name for name, entry in CONTESTANTS.items() if entry.installed]
    parser.add_argument("--contestants", nargs="+", default=installed, choices=installed)
    args = parser.parse_args()
    output = result_path("packing", args.output, quick=args.quick)
    if args.quick:
        args.time_limit, args.runs = 0.2, 1
        args.only = args.only or ["dissected 50", "lstm"]
    if print_earlier("packing", args, tables):
        return
    if FIRST in args.contestants:
        args.contestants = [FIRST, *(name for name in args.contestants if name != FIRST)]
    sources = {
        "instances": lambda: from_folder(args.instances) if args.instances else generated(),
        "networks": lambda: large_networks(quick=args.quick),
    }
    kept = json.loads(output.read_text()).get("parts", {}) if output.exists() else {}
    parts: dict[str, Any] = {part: kept[part] for part in PARTS if part in kept}
    try:
        for part in args.parts:
            rows: list[dict[str, Any]] = []
            parts[part] = {
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "time_limit": args.time_limit,
                "threads": THREADS,
                "rows": rows,
            }
            for name, problem in sources[part]():
                if not args.only or any(word in name for word in args.only):
                    rows += compare(part, name, problem, args)
            print(f"\n{table(rows)}\n")
    finally:  # an interrupted run writes its rows, too
        versions = {name: version(name) for name in ("omnimalloc", "ortools", "torch")}
        result = {"versions": versions, "parts": parts}
        write_result("packing", result, output, quick=args.quick)


def version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
