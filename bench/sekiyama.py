"""The networks of Sekiyama et al. 2018: device memory, and the largest batch of a card.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal, which
has no cuDNN: convolutions have no workspaces. `gpu/sekiyama.py` has cuDNN, and measures speed.

    python bench/sekiyama.py --python .venv-fakecuda/bin/python
    python bench/sekiyama.py --python .venv-fakecuda/bin/python --network resnet --only memory
    python bench/sekiyama.py --table

AlexNet, GoogLeNet, ResNet-50, Inception-ResNet-v2 and a sequence-to-sequence LSTM, in float32, at
batches of 32 to 256, under PyTorch's default allocator, expandable segments, pgmo's pages without a
session, and pgmo without a saved plan: `pgmo.optimize()` around the loop, and `pgmo run`. Peaks are
those of the card from the beginning of the process, whoever took the memory. The reduction is what
pgmo saves of the default allocator's peak; the paper reports what it saves of its framework's. Both
are of another decade: it is the same question, but not the same program. The bound is live bytes
over the default's peak.

The result is written network by network, and what it has of others stays.

The largest batch is the largest that trains on a 16 GiB card; the bound is the largest whose live
bytes alone fit on it; both to a few percent (`STEPS`).
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from _machine import add_common_options, result_path, write_result
from workloads.job import CONTENDERS, Job
from workloads.launch import ROOT, Stub
from workloads.measuring import GIB, largest_batches, measure_case
from workloads.sekiyama import NAMES, REPORTED_REDUCTION
from workloads.sekiyama.table import tables

FOLDER = "sekiyama."
QUICK_NETWORKS = ("alexnet", "googlenet")
BATCHES = (32, 64, 128, 256)
QUICK_BATCHES = (8,)
CARD = 16 * GIB
QUICK_CARD = GIB // 4
STEPS = {"alexnet": 64, "googlenet": 8, "resnet": 4, "inception_resnet": 2, "seq2seq": 4}
"""Between the batches that are tried: some percent of the largest."""

FIXED, VARYING = 8, 16
"""Iterations: the session replays from the third on, where all are alike."""


def job(network: str, batch: int, *, train: bool, quick: bool) -> Job:
    """One run; sentences are of any length, images of one size."""
    varying = network == "seq2seq"
    return Job(
        FOLDER + network,
        "any" if varying else "fixed",
        batch=batch,
        iterations=VARYING if varying and not quick else FIXED,
        small=quick,
        train=train,
    )


def cases(network: str, batches: Iterable[int], quick: bool) -> Iterator[Job]:
    """The runs whose memory is measured."""
    for train in (True, False):
        for batch in batches:
            yield job(network, batch, train=train, quick=quick)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="one with the CUDA torch")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda")
    parser.add_argument("--network", choices=NAMES, action="append", help="repeatable")
    parser.add_argument("--allocator", choices=CONTENDERS, action="append")
    parser.add_argument("--batch", type=int, action="append", help="by default 32 to 256")
    parser.add_argument("--only", choices=("memory", "batch"))
    parser.add_argument("--seeds", type=int, default=1, help="of lengths; the worst figures count")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--table", action="store_true", help="print the tables of an earlier run")
    add_common_options(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.table:
        path = result_path("sekiyama", arguments.output)
        print(tables(json.loads(path.read_text("utf-8"))))
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    quick = arguments.quick
    path = result_path("sekiyama", arguments.output, quick=quick)
    result = json.loads(path.read_text("utf-8")) if path.exists() and not quick else {}
    parts = {name: result.get(name, []) for name in ("rows", "largest_batch")}
    failed = False
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for network in arguments.network or (QUICK_NETWORKS if quick else NAMES):
            for name, rows in measure(stub, network, arguments, pool).items():
                measured = {identity(name, row) for row in rows}
                others = [row for row in parts[name] if identity(name, row) not in measured]
                parts[name] = sorted(others + rows, key=order)
                failed |= any("failed" in row for row in rows)
            found = {"torch": torch_of(stub), "reported_reduction": REPORTED_REDUCTION, **parts}
            write_result("sekiyama", found, path, quick=quick)
    print(tables(parts))
    if failed:
        sys.exit("some runs failed")


def measure(
    stub: Stub, network: str, arguments: argparse.Namespace, pool: ThreadPoolExecutor
) -> dict[str, list[dict[str, Any]]]:
    """What is asked for of one network: its rows, by their name in the result."""
    quick = arguments.quick
    allocators = arguments.allocator or CONTENDERS
    found: dict[str, list[dict[str, Any]]] = {}
    if arguments.only != "batch":
        sizes = arguments.batch or (QUICK_BATCHES if quick else BATCHES)
        parts = pool.map(
            lambda case: measure_case(
                stub, case, allocators, arguments.seeds if case.lengths == "any" else 1
            ),
            cases(network, sizes, quick),
        )
        found["rows"] = [row for part in parts for row in part]
    if arguments.only != "memory" and not (quick and network != QUICK_NETWORKS[0]):
        case = replace(job(network, 1, train=True, quick=quick), iterations=FIXED)
        found["largest_batch"] = largest_batches(
            stub,
            case,
            allocators,
            QUICK_CARD if quick else CARD,
            step=1 if quick else STEPS.get(network, 1),
        )
    return found


def identity(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    """What a later run of the same takes the place of; the batch may be what was found."""
    case = row["network"], row["train"], row["allocator"]
    return (*case, row["batch"]) if name == "rows" else case


def order(row: dict[str, Any]) -> tuple[int, bool]:
    """Of a row in the result: by network, training first."""
    return NAMES.index(str(row["network"]).removeprefix(FOLDER)), not row["train"]


def torch_of(stub: Stub) -> str:
    """Its version."""
    return stub.run(Job("gpt", small=True, batch=1, iterations=1)).torch


if __name__ == "__main__":
    main()
