"""The networks of Sekiyama et al. 2018: device memory, and the largest batch on a card.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal. cuDNN
is disabled, so convolutions have no workspaces of cuDNN. `gpu/sekiyama.py` uses cuDNN, and measures
speed.

    python bench/sekiyama.py --python .venv-fakecuda/bin/python
    python bench/sekiyama.py --python .venv-fakecuda/bin/python --network resnet --only memory
    python bench/sekiyama.py --table

AlexNet, GoogLeNet, ResNet-50, Inception-ResNet-v2 and a sequence-to-sequence LSTM, in float32, at
batches of 32 to 256, under PyTorch's default allocator, expandable segments, pgmo's pages without a
session, and pgmo without a saved plan: `pgmo.optimize()` around the loop, and `pgmo run`. Peaks are
of all bytes taken from the card, from the beginning of the process. The reduction is the share of
the default allocator's peak that pgmo saves. The paper reports the reduction of its own framework's
peak, so the figures cannot be compared. The bound is the reduction to the peak of live bytes.

The largest batch is the largest that trains on a 16 GiB card. Its bound is the largest batch whose
live bytes alone fit on this card. Both are multiples of `STEPS`.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from support.machine import result_path, write_result
from support.stub_jobs import stub_parser
from workloads.job import CONTENDERS, Job
from workloads.launch import Stub
from workloads.measuring import GIB, measure_suite
from workloads.sekiyama import NAMES, REPORTED_REDUCTION
from workloads.sekiyama.table import tables

FOLDER = "sekiyama."
QUICK_NETWORKS = ("alexnet", "googlenet")
BATCHES = (32, 64, 128, 256)
QUICK_BATCHES = (8,)
CARD = 16 * GIB
QUICK_CARD = GIB // 4
STEPS = {"alexnet": 64, "googlenet": 8, "resnet": 4, "inception_resnet": 2, "seq2seq": 4}
"""Step between the batches of a search: a few percent of the largest batch."""

FIXED, VARYING = 8, 16
"""Number of iterations, with one length and with any lengths."""


def job(network: str, batch: int, *, train: bool, quick: bool) -> Job:
    """Return a run. Sentences have any length, images have one size."""
    varying = network == "seq2seq"
    return Job(
        FOLDER + network,
        "any" if varying else "fixed",
        batch=batch,
        iterations=VARYING if varying and not quick else FIXED,
        small=quick,
        train=train,
    )


def cases(networks: Iterable[str], batches: Iterable[int], quick: bool) -> Iterator[Job]:
    """Yield the runs whose memory is measured."""
    for network, train, batch in itertools.product(networks, (True, False), batches):
        yield job(network, batch, train=train, quick=quick)


def searches(networks: Iterable[str], quick: bool) -> Iterator[Job]:
    """Yield the runs whose largest batch is looked for."""
    for network in networks:
        yield replace(job(network, 1, train=True, quick=quick), iterations=FIXED)


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--network", choices=NAMES, action="append", help="repeatable")
    parser.add_argument("--allocator", choices=CONTENDERS, action="append")
    parser.add_argument("--batch", type=int, action="append", help="by default 32 to 256")
    parser.add_argument("--only", choices=("memory", "batch"))
    parser.add_argument("--seeds", type=int, default=1, help="of lengths; the worst figures count")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.table:
        path = result_path("sekiyama", arguments.output)
        print(tables(json.loads(path.read_text("utf-8"))))
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    quick = arguments.quick
    networks = arguments.network or (QUICK_NETWORKS if quick else NAMES)
    result = measure_suite(
        stub,
        arguments,
        arguments.allocator or CONTENDERS,
        cases(networks, arguments.batch or (QUICK_BATCHES if quick else BATCHES), quick),
        searches(networks[:1] if quick else networks, quick),
        lambda case: (QUICK_CARD, 1) if quick else (CARD, STEPS[case.network.removeprefix(FOLDER)]),
    )
    found = {"reported_reduction": REPORTED_REDUCTION, **result}
    write_result("sekiyama", found, arguments.output, quick=quick)
    print(tables(found))
    if any("failed" in row for row in result["rows"] + result["largest_batch"]):
        sys.exit("some runs failed")


if __name__ == "__main__":
    main()
