"""Device memory of 24 loops with pgmo, against PyTorch's default and expandable segments.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal. Some
loops need transformers, diffusers, peft, accelerate or timm; loops with a missing package are
skipped.

    python bench/never_worse.py --python .venv-fakecuda/bin/python
    python bench/never_worse.py --python .venv-fakecuda/bin/python --loop whisper --loop t5
    python bench/never_worse.py --python .venv-fakecuda/bin/python --short
    python bench/never_worse.py --table

The loops of `loops/` run under every contender, each in a process of its own on a card of 141 GiB:
PyTorch's default allocator, expandable segments, pgmo's pages without a session, a session around
the loop, and both. There is no saved plan. To show what a plan adds to pages alone, each run also
counts the driver calls, the requests that map a page and the waits of its last third, and the CPU
time of the process in all iterations. Peaks are of all bytes taken from the card, from the
beginning of the process. Efficiency is the peak of live bytes over the card's peak. Live bytes are
those that the program requested, without an allocator's rounding, in the run with the default
allocator. A contender of pgmo is behind if it takes more than 0.5 % above the default or expandable
segments.

`--short` measures runs of 3, 5, 8 and 12 iterations.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from loops import NAMES, LoopJob, table
from support.machine import print_earlier, show, write_result
from support.stub_jobs import Row, compare, row_of, stub_parser
from workloads.job import CONTENDERS, OURS
from workloads.launch import Stub

SHORT = (3, 5, 8, 12)
QUICK_LOOPS = ("llama_padded",)
TABLES: dict[str, Callable[[Iterable[table.Row]], str]] = {
    "never_worse": table.peaks,
    "never_worse_short": table.short,
}
"""Function that makes the table of each result, by the name of its file."""


def measure(stub: Stub, case: LoopJob) -> list[Row]:
    """Return a row per contender that ran. pgmo runs only if both of PyTorch's allocators did."""
    rows = [run(stub, replace(case, contender=contender)) for contender in CONTENDERS[:2]]
    default, expandable = rows
    if all("peak" in row for row in rows):
        rows += [run(stub, replace(case, contender=contender)) for contender in OURS]
    for row in rows:
        compare(row, default, expandable)
        show(row)
    return rows


def run(stub: Stub, job: LoopJob) -> Row:
    """Return the answer of the job's process, or its failure."""
    return row_of(job, lambda: stub.ask(job, "loops.worker"), "loop", "seed", "iterations")


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--loop", choices=NAMES, action="append", help="only this one; repeatable")
    parser.add_argument("--seed", type=int, action="append", help="by default 0, 1 and 2")
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--short", action="store_true", help="runs of 3, 5, 8 and 12 iterations")
    return parser.parse_args()


def chosen_lengths(arguments: argparse.Namespace) -> tuple[int, ...]:
    """Return the numbers of iterations with which each loop runs."""
    if arguments.short:
        return SHORT[:1] if arguments.quick else SHORT
    return (min(arguments.iterations, 6) if arguments.quick else arguments.iterations,)


def table_of(result: dict[str, Any]) -> str:
    """Return the table of either result."""
    return TABLES[result["benchmark"]](result["rows"])


def main() -> None:
    arguments = parse()
    if print_earlier("never_worse", arguments, table_of, "never_worse_short"):
        return
    quick = arguments.quick
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    seeds = arguments.seed or ([0] if quick else [0, 1, 2])
    lengths = chosen_lengths(arguments)
    loops = arguments.loop or (QUICK_LOOPS if quick else NAMES)
    cases = [
        LoopJob(loop, seed, iterations, small=quick)
        for loop in loops
        for iterations in lengths
        for seed in seeds
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = pool.map(lambda case: measure(stub, case), cases)
        rows = [row for rows in found for row in rows]
    name = "never_worse_short" if arguments.short else "never_worse"
    write_result(name, {"rows": rows}, arguments.output, quick=quick)
    print(TABLES[name](rows))
    if any("failed" in row for row in rows):
        sys.exit("some runs failed")


if __name__ == "__main__":
    main()
