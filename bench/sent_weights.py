"""Weights that a trainer sends to another process in every step: descriptors, pages, bytes.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/sent_weights.py --python .venv-fakecuda/bin/python          # after `make fakecuda`
    python bench/sent_weights.py --python .venv-fakecuda/bin/python --quick
    python bench/sent_weights.py --table

The trainer has bfloat16 weights of 4 GiB and sends all of them in each of 100 steps, between
activations whose sizes change, either as they are (kept) or as copies of a layer at a time that it
drops when the receiver is done (new). The receiver's part is played here: it opens nothing, and
releases each tensor as PyTorch's receivers do. What is measured is the sender.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _machine import add_common_options, result_path, write_result
from workloads.launch import ROOT, Stub

STEPS, QUICK_STEPS = 100, 4
WIDTH, LAYERS = 4096, 16
QUICK_WIDTH, QUICK_LAYERS = 512, 2
CARD = 12 << 30
SOFT_LIMIT = 1024
"""Descriptors that a process may have, as a rule. A job's hard limit of 0 is the machine's."""

WAYS = {"default": "PyTorch", "expandable": "PyTorch, expandable segments", "pgmo": "pgmo, pages"}
BUFFERS = ("kept", "new")


def measure(stub: Stub, way: str, buffers: str, hard: int, *, quick: bool) -> dict[str, Any]:
    """Run one trainer in a process of its own."""
    setting = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if way == "expandable" else {}
    job = {"way": way, "buffers": buffers, "hard": hard, "quick": quick}
    done = subprocess.run(
        [str(stub.out / "run"), stub.python, __file__, "--job", json.dumps(job)],
        env={name: it for name, it in os.environ.items() if name != "PYTORCH_CUDA_ALLOC_CONF"}
        | setting
        | {
            "FAKECUDA_BYTES": str(CARD),
            "FAKECUDA_COPY_LIMIT": str(1 << 16),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


class Trainer:
    """Weights on the card, and steps that send them.

    Args:
        quick: a model of a few mebibytes.
    """

    def __init__(self, *, quick: bool) -> None:
        import torch

        width, layers = (QUICK_WIDTH, QUICK_LAYERS) if quick else (WIDTH, LAYERS)
        shapes = [(width, width)] * 4 + [(width,)] + [(width, 2 * width + 256)] * 2 + [(width,)]
        self.layers = [
            [torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes]
            for _ in range(layers)
        ]
        self.width = width
        self.handles: set[bytes] = set()

    def activations(self, step: int) -> None:
        """Allocate and free what a forward and a backward pass of varying length do."""
        import torch

        rows = 64 + 37 * step % 192
        kept = []
        for at in range(len(self.layers)):
            block = torch.empty(rows, self.width, 4 + at % 3, device="cuda")
            kept.append(torch.empty(rows, self.width, device="cuda"))
            del block
        while kept:
            kept.pop()

    def send(self, tensors: list[Any]) -> None:
        """Share tensors, and release them as a receiver does."""
        import torch

        for tensor in tensors:
            storage = tensor.untyped_storage()
            shared = storage._share_cuda_()
            self.handles.add(shared[1])
            torch.UntypedStorage._release_ipc_counter_cuda(shared[4], shared[5])

    def step(self, number: int, buffers: str) -> None:
        """Train, then send all weights."""
        import torch

        self.activations(number)
        for layer in self.layers:
            sent = layer if buffers == "kept" else [torch.empty_like(one) for one in layer]
            self.send(sent)
        del sent
        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]


def work(way: str, buffers: str, hard: int, *, quick: bool) -> dict[str, Any]:
    """Train and send in this process."""
    import resource

    import torch

    from pgmo.rehearsal.control import driver_calls, peak, used

    limits = SOFT_LIMIT, hard or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    if way == "pgmo":
        import pgmo

        torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    trainer = Trainer(quick=quick)
    weights = torch.cuda.memory_allocated()
    before = descriptors()
    open_after: list[int] = []
    error = ""
    steps = QUICK_STEPS if quick else STEPS
    for number in range(steps):
        try:
            trainer.step(number, buffers)
        except RuntimeError as raised:
            error = str(raised).splitlines()[0]
            break
        open_after.append(descriptors() - before)
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    return {
        "way": way,
        "buffers": buffers,
        "hard_limit": hard or None,
        "weights": weights,
        "steps": len(open_after),
        "error": error,
        "descriptors_after_step_1": open_after[0] if open_after else None,
        "descriptors_at_most": max(open_after, default=None),
        "handles": len(trainer.handles),
        "exports": driver_calls()["export"],
        "reserved": reserved,
        "reserved_after_empty_cache": torch.cuda.memory_reserved(),
        "card_peak": peak(),
        "card_at_end": used(),
    }


def descriptors() -> int:
    """Return how many descriptors the process has, without those of the stub itself."""
    from pgmo.rehearsal.control import own_files

    return len(os.listdir("/proc/self/fd")) - own_files()


def table(result: dict[str, Any]) -> str:
    """Return the rows for bench/details.md."""
    lines = [
        "| | buffers | steps | descriptors | handles | card, peak | card, after `empty_cache` |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in result["rows"]:
        name = WAYS[row["way"]]
        if row["hard_limit"]:
            name += f", of at most {row['hard_limit'] // 2:,}"
        most = row["descriptors_at_most"]
        cells = [
            name,
            row["buffers"],
            f"{row['steps']}" + (" (error)" if row["error"] else ""),
            "—" if most is None else f"{most:,}",
            f"{row['handles']:,}",
            f"{row['card_peak'] / 2**20:,.0f} MiB",
            f"{row['card_at_end'] / 2**20:,.0f} MiB",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the table of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="with the CUDA build of torch")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--table", action="store_true", help="print what was measured before")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    add_common_options(parser)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(work(**json.loads(arguments.job))))
        return
    if arguments.table:
        print(table(json.loads(result_path("sent_weights", arguments.output).read_text())))
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    jobs = [(way, buffers, 0) for way in arguments.ways for buffers in BUFFERS]
    if "pgmo" in arguments.ways and not arguments.quick:
        # The stub has a descriptor of its own for each exported handle, which no driver has.
        jobs.append(("pgmo", "kept", 2 * SOFT_LIMIT))
    rows = []
    for way, buffers, hard in jobs:
        rows.append(measure(stub, way, buffers, hard, quick=arguments.quick))
        print(rows[-1], file=sys.stderr)
    result = {"steps": QUICK_STEPS if arguments.quick else STEPS, "card": CARD, "rows": rows}
    write_result("sent_weights", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
