"""Device memory of training loops under PyTorch's allocator, expandable segments, pages and pgmo.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/fakecuda_memory.py --python .venv-fakecuda/bin/python
    python bench/fakecuda_memory.py --python .venv-fakecuda/bin/python --quick
    python bench/fakecuda_memory.py --table

Efficiency is the peak of live bytes over the peak of all bytes taken from the card, from the
beginning of the process. The card is so large (141 GiB, an H200's) that no allocator frees memory
for want of it. Live bytes are those that the program requested, without an allocator's rounding, in
the run with the default allocator. Every run is a process of its own. Lengths that vary are drawn
with several seeds. Workloads without lengths run as often, and must give equal figures. The worst
figures count; of the CPU time of all iterations, the median. Driver calls, requests that map a page
and waits are per iteration of the last third. Saved plans come from an earlier run of the same
program, which saw the same lengths twice.

The largest batch is the largest that trains 20 iterations on a 16 GiB card. The bound is the
largest batch whose live bytes alone fit on this card. Saved plans for a largest batch are recorded
on a 64 GiB card.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Iterator

from support.machine import result_path, write_result
from support.stub_jobs import stub_parser
from workloads.job import CONTENDERS, SAVED_PLAN, Job
from workloads.launch import Stub
from workloads.measuring import GIB, measure_suite
from workloads.table import tables

EVERY_CONTENDER = (*CONTENDERS, SAVED_PLAN)
CARD = 16 * GIB
BATCHES = {"gpt": 8, "resnet": 128, "unet": 32, "seq2seq": 64}
LENGTHS = {
    "gpt": ("fixed", "bucket", "any", "grow"),
    "resnet": ("fixed",),
    "unet": ("fixed",),
    "seq2seq": ("fixed", "bucket", "any"),
}
VARYING = 100  # iterations, if lengths vary
GROWING = 61  # iterations, if lengths grow from 64 to 1,024 tokens by 16
ITERATIONS = {"fixed": 40, "bucket": VARYING, "any": VARYING, "grow": GROWING}


def cases(networks: Iterable[str], quick: bool) -> Iterator[Job]:
    """Yield the workloads whose efficiency is measured."""
    for network in networks:
        every = itertools.product(LENGTHS[network], (False, True))
        hardest = [("any" if "any" in LENGTHS[network] else "fixed", True)]
        for lengths, recompute in hardest if quick else every:
            yield Job(
                network,
                lengths,
                recompute,
                batch=4 if quick else BATCHES[network],
                iterations=20 if quick else ITERATIONS[lengths],
                small=quick,
            )


def searches(quick: bool) -> Iterator[Job]:
    """Yield the workloads whose largest batch is looked for."""
    every = itertools.product(("fixed", "any"), (False, True))
    for lengths, recompute in [("fixed", False)] if quick else every:
        yield Job("gpt", lengths, recompute, iterations=20, small=quick)


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--allocator", choices=EVERY_CONTENDER, action="append")
    parser.add_argument("--only", choices=("memory", "batch"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.table:
        print(
            tables(json.loads(result_path("fakecuda_memory", arguments.output).read_text("utf-8")))
        )
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    quick = arguments.quick
    contenders = arguments.allocator or (CONTENDERS if quick else EVERY_CONTENDER)
    result = measure_suite(
        stub,
        arguments,
        contenders,
        cases(["gpt"] if quick else LENGTHS, quick),
        searches(quick),
        lambda case: (CARD // 64 if quick else CARD, 1),
    )
    write_result("fakecuda_memory", result, arguments.output, quick=quick)
    print(tables(result))
    rows = result["rows"]
    if any("failed" in row for row in rows + result["largest_batch"]):
        sys.exit("some runs failed")
    if not all(row["identical"] for row in rows if row.get("lengths") in ("fixed", "grow")):
        sys.exit("runs of the same program differ")


if __name__ == "__main__":
    main()
