"""One rank of DDP, FSDP2, tensor parallel and pipelines on worlds of 2 to 512, without a GPU.

The real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal, and PyTorch's fake
process group stands for the other ranks.

    python bench/fakecuda_ranks.py --python .venv-fakecuda/bin/python
    python bench/fakecuda_ranks.py --python .venv-fakecuda/bin/python --world 8 --keep
    python bench/fakecuda_ranks.py --table

GPT-2 medium with AdamW runs under every contender, each in a process of its own on a card of
141 GiB: PyTorch's default allocator, expandable segments, pgmo's pages without a session, a session
of pgmo opened around the loop, and pages from the start with a session around the loop, as in `pgmo
run`. Efficiency is the peak of live bytes divided by the card's peak. It is given for the whole
run, and for its last third, in which a plan is replayed. Live bytes are those that the program
requested, without an allocator's rounding. For the whole run, live bytes come from the default
allocator's run. For the last third, the smaller live bytes of the default allocator's run and the
contender's run count.

On the stub all work is done at once, so no stream waits. So pgmo's contenders also run while all
streams lag: no stream does any work before the iteration has been submitted, and each hand-over of
a page from one stream to another is a wait. A GPU is between both extremes. Worlds beyond 64 run
without lag only. *Waits added* are waits that the program's own events do not imply.

The program's events determine only in part which of two blocks on different streams ends first.
*Order* is how far the
ordered load is above the max load (`pgmo.packing.ordered_load`): a plan that adds no waits cannot
be smaller than the ordered load. *Gap* is how far the pages of the plan are above the ordered load.
*Bound / reserved* is a bound divided by the card's peak. The bound is the live bytes plus the
difference of ordered load and max load. The peak may be below it if streams wait for pages.

The result is written after each case, and each row has the time of its measurement. `--keep` keeps
the rows of other cases in the file.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

from ranks import NAMES, WORLDS, RankJob
from ranks.table import table
from support.machine import print_earlier, result_path, show, write_result
from support.stub_jobs import Row, compare, earlier_rows, replaced, row_of, stub_parser
from workloads.job import CONTENDERS, OURS
from workloads.launch import ROOT, Stub

MOST_LAGGING = 64
"""Largest number of ranks with lagging streams. With more, the stub needs a minute per run."""


def measure(stub: Stub, case: RankJob) -> list[Row]:
    """Return one row per contender and lag, each compared with PyTorch's two allocators."""
    rows = [run(stub, replace(case, contender=name)) for name in CONTENDERS[:2]]
    for lag in (False, True) if case.world <= MOST_LAGGING else (False,):
        rows += [run(stub, replace(case, contender=name, lag=lag)) for name in OURS]
    for row in rows:
        compare_steady(row, *rows[:2])
        show(row)
    return rows


def run(stub: Stub, job: RankJob) -> Row:
    """Return the answer of the job's process, or its failure."""
    row = {"measured": datetime.now(UTC).isoformat(timespec="minutes")}
    fields = ("program", "world", "lag", "iterations", "batch")
    return row | row_of(job, lambda: stub.ask(job, "ranks.worker"), *fields)


def compare_steady(row: Row, default: Row, expandable: Row) -> None:
    """Add the figures that need the runs of PyTorch's allocators, if no run failed."""
    if any("steady_peak" not in one for one in (row, default, expandable)):
        return
    compare(row, default, expandable)
    if row["lag"]:  # the stub itself needs CPU time
        del row["cpu_over_default"]
    row["steady_live"] = min(default["steady_requested"], row["steady_requested"])
    row["steady_efficiency"] = row["steady_live"] / row["steady_peak"]
    if row.get("max_load"):
        more = max(0, (row["ordered_load"] or row["max_load"]) - row["max_load"])
        row["bound"] = row["steady_live"] + more
        row["bound_efficiency"] = row["bound"] / row["steady_peak"]


def in_order(row: Row) -> tuple[int, int]:
    """Return a sort key; rows of one case keep their order."""
    return NAMES.index(row["program"]), row["world"]


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--program", choices=NAMES, action="append", help="repeatable")
    parser.add_argument("--world", type=int, action="append", help="by default 2, 8, 64 and 512")
    parser.add_argument("--iterations", type=int, default=18)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--keep", action="store_true", help="keep the file's rows of other cases")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("fakecuda_ranks", arguments, lambda found: table(found["rows"])):
        return
    stub = Stub.build(arguments.python, ROOT / arguments.stub)
    quick = arguments.quick
    cases = [
        RankJob(
            program,
            world,
            iterations=9 if quick else arguments.iterations,
            batch=4 if quick else 8,
            small=quick,
        )
        for program in arguments.program or NAMES
        for world in arguments.world or ((4,) if quick else WORLDS)
    ]
    path = result_path("fakecuda_ranks", arguments.output, quick=quick)
    rows = earlier_rows(path) if arguments.keep else []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for part in pool.map(lambda case: measure(stub, case), cases):
            rows = sorted(
                replaced(rows, part, "program", "world", "contender", "lag"), key=in_order
            )
            write_result("fakecuda_ranks", {"rows": rows}, arguments.output, quick=quick)
    print(table(rows))
    if any("failed" in row for row in rows):
        sys.exit("some runs failed")


if __name__ == "__main__":
    main()
