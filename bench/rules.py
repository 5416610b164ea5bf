"""Memory and driver calls without each rule of matching, learning and planning.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal. The
loops are those of `never_worse.py`, and GPT-2 medium at any length.

    python bench/rules.py --python .venv-fakecuda/bin/python
    python bench/rules.py --python .venv-fakecuda/bin/python --loops t5 --rules look_ahead price
    python bench/rules.py --table

One rule at a time is switched off, by a value of its heuristic under which it does nothing
(`switches/`). Every run is a process of its own, on a card of 141 GiB, without a saved plan.
Figures are the peak of the card over that of expandable segments, and driver calls per iteration of
the last third. Each row also has the figures of the same loop and seed with all rules on.

On most loops plans wait (`price`), and rules of matching have no effect. To measure these rules,
use more `--iterations`. The result is written loop by loop; rows of other loops stay in the file.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from loops import NAMES, OWN, LoopJob
from support.machine import print_earlier, result_path, show, write_result
from support.stub_jobs import Row, earlier_rows, replaced, row_of, stub_parser
from switches import RULES
from switches.table import tables
from workloads.columns import calls
from workloads.job import OURS
from workloads.launch import Stub

LEFT_OUT = ("decoding", "rollouts", "trainer_callback")
"""Loops that are left out by default: two take minutes per run, and one is like `trainer`."""

QUICK_LOOPS = ("graph_batches",)
QUICK_RULES = ("stale", "look_ahead", "price")
EVERYTHING = "everything on"
IDENTITY = ("loop", "seed", "contender", "rule", "iterations")
"""Fields that identify a row: a new row replaces an earlier row with equal fields."""


def measure(stub: Stub, case: LoopJob, rules: Iterable[str]) -> Iterator[Row]:
    """Yield a row with all rules on, and a row without each rule; one row if the loop is skipped.

    Args:
        stub: the stub runtime.
        case: a loop and a seed.
        rules: names of rules.
    """
    expandable = run(stub, replace(case, contender="expandable"), "")
    if "skipped" in expandable:
        yield expandable
        return
    usual = run(stub, case, EVERYTHING)
    compare(usual, usual, expandable)
    yield usual
    for rule in rules:
        row = run(stub, replace(case, off=RULES[rule].off), rule)
        compare(row, usual, expandable)
        yield row


def run(stub: Stub, job: LoopJob, rule: str) -> Row:
    """Return the row of a job: its figures, or its failure."""
    found = {"rule": rule} | row_of(job, lambda: stub.ask(job, "loops.worker"), "loop", "seed")
    if "peak" not in found:
        return found
    named = ("rule", "loop", "seed", "contender")
    measured = ("peak", "out_of_memory", "seconds", "from_slots", "replans", "torch")
    row = {name: found[name] for name in (*named, *measured) if name in found}
    return row | {"calls": calls(found), "calls_before": found["driver_calls_before"]}


def compare(row: Row, usual: Row, expandable: Row) -> None:
    """Add the figures that need the other runs."""
    if "peak" in row and "peak" in usual and "peak" in expandable:
        row["over_expandable"] = row["peak"] / expandable["peak"]
        row["over_usual"] = row["peak"] / usual["peak"]
        row["usual_calls"] = usual["calls"]
        row["usual_calls_before"] = usual["calls_before"]


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--loops", nargs="+", choices=[*NAMES, *OWN])
    parser.add_argument("--rules", nargs="+", choices=list(RULES))
    parser.add_argument("--contenders", nargs="+", choices=OURS, default=["pgmo", "pgmo_run"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("rules", arguments, tables):
        return
    quick = arguments.quick
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    usual_loops = [*OWN, *(name for name in NAMES if name not in LEFT_OUT)]
    loops = arguments.loops or (QUICK_LOOPS if quick else usual_loops)
    rules = arguments.rules or (QUICK_RULES if quick else list(RULES))
    iterations = min(arguments.iterations, 6) if quick else arguments.iterations
    cases = [
        LoopJob(loop, seed, iterations, contender=contender, small=quick)
        for loop in loops
        for seed in arguments.seeds
        for contender in arguments.contenders
    ]

    def rows_of(case: LoopJob) -> list[Row]:
        found = []
        for row in measure(stub, case, rules):
            show(row)
            found.append(row | {"iterations": iterations})
        return found

    path = result_path("rules", arguments.output, quick=quick)
    rows = [] if quick else earlier_rows(path)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for part in pool.map(rows_of, cases):
            rows = replaced(rows, part, *IDENTITY)
            write_result("rules", {"rows": rows}, path, quick=quick)
    print(tables({"rows": rows}))
    if any("failed" in row for row in rows):
        sys.exit("some runs failed")


if __name__ == "__main__":
    main()
