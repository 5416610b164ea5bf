"""Device memory of networks and their largest batches: PyTorch's allocators, pages and pgmo.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal. cuDNN
is disabled, so convolutions have no workspaces of cuDNN.

    python bench/fakecuda_memory.py --python .venv-fakecuda/bin/python
    python bench/fakecuda_memory.py --python .venv-fakecuda/bin/python --sekiyama
    python bench/fakecuda_memory.py --python .venv-fakecuda/bin/python --quick
    python bench/fakecuda_memory.py --table

Efficiency is the peak of live bytes over the peak of all bytes taken from the card, from the
beginning of the process. The card is so large (141 GiB, an H200's) that no allocator has to free
cached memory. Live bytes are those that the program requested, without an allocator's rounding, in
the run with the default allocator. Every run is a process of its own. Each workload runs once per
seed, which draws the lengths. Runs of fixed or growing lengths must give equal figures. The worst
figure of all seeds counts, and the median ratio of CPU times. Driver calls, requests that map a
page and waits are per iteration of the last third. Saved plans come from an earlier run of the same
program, which saw the same lengths twice.

The largest batch is the largest that trains on a 16 GiB card. The bound is the largest batch whose
live bytes alone fit on this card. Saved plans for a largest batch are recorded on a 64 GiB card.

With `--sekiyama`, the networks are those of Sekiyama et al. 2018 (`workloads/sekiyama`), in
float32, in training and inference, at batches of 32 to 256. Batches of a search are multiples of
`STEPS`. The reduction is the share of the default allocator's peak that pgmo saves. The paper
reports the reduction of its own framework's peak, so the figures cannot be compared. The bound is
the reduction to the peak of live bytes. `gpu/largest_batch.py --sekiyama` uses cuDNN, and measures
speed.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from support.machine import print_earlier, write_result
from support.stub_jobs import stub_parser
from workloads.job import CONTENDERS, SAVED_PLAN, Job
from workloads.launch import Stub
from workloads.measuring import GIB, measure_suite
from workloads.sekiyama import NAMES
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

STEPS = {
    "sekiyama.alexnet": 64,
    "sekiyama.googlenet": 8,
    "sekiyama.resnet": 4,
    "sekiyama.inception_resnet": 2,
    "sekiyama.seq2seq": 4,
}
"""Step between the batches of a search: a few percent of the largest batch."""


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
    """Yield the workloads for which the largest batch is searched for."""
    every = itertools.product(("fixed", "any"), (False, True))
    for lengths, recompute in [("fixed", False)] if quick else every:
        yield Job("gpt", lengths, recompute, iterations=20, small=quick)


def sekiyama_cases(networks: Iterable[str], quick: bool) -> Iterator[Job]:
    """Yield workloads of 2018 to measure. Sentences have any length, images have one size."""
    batches = (4,) if quick else (32, 64, 128, 256)
    for network, train, batch in itertools.product(networks, (True, False), batches):
        varying = network == "seq2seq"
        yield Job(
            f"sekiyama.{network}",
            "any" if varying else "fixed",
            batch=batch,
            iterations=16 if varying and not quick else 8,
            small=quick,
            train=train,
        )


def sekiyama_searches(networks: Iterable[str], quick: bool) -> Iterator[Job]:
    """Yield the training workloads of 2018 for which the largest batch is searched for."""
    for case in sekiyama_cases(networks, quick):
        if case.train and case.batch in (4, 32):
            yield replace(case, batch=1, iterations=8)


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--sekiyama", action="store_true", help="networks of Sekiyama et al. 2018")
    parser.add_argument("--network", choices=sorted({*LENGTHS, *NAMES}), action="append")
    parser.add_argument("--allocator", choices=EVERY_CONTENDER, action="append")
    parser.add_argument("--only", choices=("memory", "batch"))
    parser.add_argument("--seeds", type=int, help="by default 3, and 1 with --sekiyama")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    quick, sekiyama = arguments.quick, arguments.sekiyama
    name = "sekiyama" if sekiyama else "fakecuda_memory"
    if print_earlier("fakecuda_memory", arguments, tables, "sekiyama"):
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    arguments.seeds = arguments.seeds or (1 if sekiyama else 3)
    card = CARD // 64 if quick else CARD
    if sekiyama:
        networks = [one for one in NAMES if one in (arguments.network or NAMES)]
        networks = networks[:2] if quick else networks
        measured = sekiyama_cases(networks, quick)
        searched = sekiyama_searches(networks[:1] if quick else networks, quick)
    else:
        networks = [one for one in LENGTHS if one in (arguments.network or LENGTHS)]
        networks = networks[:1] if quick else networks
        measured, searched = cases(networks, quick), searches(quick)
    usual = CONTENDERS if quick or sekiyama else EVERY_CONTENDER
    result = measure_suite(
        stub,
        arguments,
        arguments.allocator or usual,
        measured,
        searched,
        lambda case: (card, 1 if quick else STEPS.get(case.network, 1)),
    )
    write_result(name, result, arguments.output, quick=quick)
    print(tables(result))
    rows = result["rows"]
    if any("failed" in row for row in rows + result["largest_batch"]):
        sys.exit("some runs failed")
    if not all(row["identical"] for row in rows if row.get("lengths") in ("fixed", "grow")):
        sys.exit("runs of the same program differ")


if __name__ == "__main__":
    main()
