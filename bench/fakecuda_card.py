"""A Llama of 1.1 billion parameters on cards of 16, 24 and 40 GiB: the largest batch that trains.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/fakecuda_card.py --python .venv-fakecuda/bin/python
    python bench/fakecuda_card.py --python .venv-fakecuda/bin/python --cards 16 --ways checkpoint
    python bench/fakecuda_card.py --python .venv-fakecuda/bin/python --quick
    python bench/fakecuda_card.py --table

The model is transformers' LlamaForCausalLM unchanged, in the sizes of TinyLlama, at 1,024 tokens.
Parameters, gradients and the state of AdamW are bfloat16 on all cards: in float32 they alone take
17.6 GB. With PyTorch's own ways, batches are doubled until one runs out of memory, and then found
by bisection, with three steps each. `pgmo.recompute.largest` is called once per way: by itself,
with offload over a link of 24 GB/s, and also with the optimizer's state on the host during the
passes. Its answer is trained for five steps.
"""

import argparse
import gc
import json
import time
from typing import Any

from support.machine import print_earlier, result_path, show, write_result
from support.stub_jobs import stub_parser
from workloads.columns import markdown
from workloads.job import process_settings
from workloads.launch import Stub
from workloads.search import largest_batch

CARDS, QUICK_CARD = (16.0, 24.0, 40.0), 0.75
TRIED, TRAINED = 3, 5  # steps
SETTINGS = {"FAKECUDA_COPY_LIMIT": str(1 << 20), "PYTHONWARNINGS": "ignore"}
START = 8  # samples in the first batch that `pgmo.recompute.largest` tries

WAYS = {
    "default": "PyTorch, default",
    "expandable": "PyTorch, expandable segments",
    "checkpoint": "the same, gradient_checkpointing_enable()",
    "pgmo": "the same, `pgmo.recompute.largest`",
    "offload": 'the same with `offload="pcie4"`',
    "state": "the same with `state=True`",
}


def found(stub: Stub, way: str, card: float, longest: float, *, quick: bool) -> dict[str, Any]:
    """Run one way on a card in its own process; return the row that the process prints."""
    allocator = "default" if way == "default" else "expandable"
    settings = process_settings(allocator, int(card * 2**30)) | SETTINGS
    job = {"way": way, "card": card, "quick": quick}
    row: dict[str, Any] = stub.result_of((__file__, "--job", json.dumps(job)), settings, longest)
    return row


class Program:
    """Model and optimizer on the card, and their training step."""

    def __init__(self, *, quick: bool) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_cudnn_sdp(False)
        width, inner, layers, heads, groups, self.words, self.tokens = (
            (64, 176, 3, 4, 2, 4096, 256) if quick else (2048, 5632, 22, 32, 4, 32000, 1024)
        )
        config = LlamaConfig(
            vocab_size=self.words,
            hidden_size=width,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            max_position_embeddings=2048,
            use_cache=False,
        )
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.model: Any = LlamaForCausalLM(config).train()
        torch.set_default_dtype(torch.float32)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def batch(self, samples: int) -> dict[str, Any]:
        """Return the model's arguments, each of shape (samples, tokens)."""
        import torch

        words = torch.randint(self.words, (samples, self.tokens), device="cuda")
        return {"input_ids": words, "labels": words}

    def train(self, samples: int, steps: int) -> int:
        """Train for some steps; return the most bytes that PyTorch reserved."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(**self.batch(samples)).loss.backward()
            self.optimizer.step()
        return int(torch.cuda.max_memory_reserved())


def work(way: str, card: float, *, quick: bool) -> dict[str, Any]:
    """Return the row with the largest batch of one way, found in this process."""
    if way in ("pgmo", "offload", "state"):
        found = _by_one_call(
            card, None if way == "pgmo" else "pcie4", state=way == "state", quick=quick
        )
        return {"way": way, "card": card, **found}
    found = largest_batch(lambda batch: _tried(way, batch, quick=quick), guess=1)
    reserved = found["reserved"].get(found["largest_batch"])
    return {"way": way, "card": card, **found, "reserved": reserved}


def _tried(way: str, batch: int, *, quick: bool) -> int | None:
    """Train on a batch; return the bytes that PyTorch reserved, None if it ran out of memory."""
    import torch

    try:
        program = Program(quick=quick)
        if way == "checkpoint":
            program.model.gradient_checkpointing_enable()
        return program.train(batch, TRIED)
    except torch.OutOfMemoryError:
        return None
    finally:
        program = None  # type: ignore[assignment]
        gc.collect()
        torch.cuda.empty_cache()


def _by_one_call(card: float, link: str | None, *, state: bool, quick: bool) -> dict[str, Any]:
    import torch

    import pgmo

    program = Program(quick=quick)
    begin = time.monotonic()
    batch, program.model, plan = pgmo.recompute.largest(
        program.model,
        program.batch,
        start=START,
        card=f"{int(card * 2**10)}MiB",
        optimizer=program.optimizer,
        offload=link,
        state=state,
    )
    seconds = time.monotonic() - begin
    gc.collect()
    torch.cuda.empty_cache()
    reserved = program.train(batch, TRAINED)
    return {
        "largest_batch": batch,
        "reserved": reserved,
        "left": plan.card.left if plan.card else None,
        "peak": plan.peak,
        "measured": plan.measured_peak,
        "default_peak": plan.default_peak,
        "overhead": plan.overhead,
        "rerun_share": plan.schedule.rerun_share,
        "host_bytes": plan.host_bytes,
        "state_bytes": plan.state_bytes,
        "state_share": plan.state_share,
        "call_seconds": seconds,
        "trained_steps": TRAINED,
    }


def table(result: dict[str, Any]) -> str:
    """Return the table of bench/details.md: batches of each way, and overheads of pgmo's ways."""
    cards = sorted({row["card"] for row in result["rows"]})
    lines = [["", *(f"{card:g} GiB" for card in cards)]]
    rows = {(row["way"], row["card"]): row for row in result["rows"]}
    for way, name in WAYS.items():
        lines.append([name, *(_cell(rows.get((way, card))) for card in cards)])
    named = ("pgmo", "pgmo"), ("offload", 'pgmo with `offload="pcie4"`')
    for way, name in (*named, ("state", "pgmo with `state=True`, too")):
        shares = (_share(rows.get((way, card))) for card in cards)
        lines.append([f"overhead of {name}", *shares])
    return markdown(lines, right=range(1, len(cards) + 1))


def _share(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if not row.get("host_bytes") and not row.get("state_bytes"):
        return f"{row['overhead']:.0%}"
    waits = row["overhead"] - row["rerun_share"]
    host = (row["host_bytes"] + row.get("state_bytes", 0)) / 2**30
    return f"{row['rerun_share']:.0%} run again, {waits:.0%} waited; {host:.1f} GiB on the host"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not measured"
    return f"{row['largest_batch']} ({row['reserved'] / 2**30:.1f} GiB)" if row["reserved"] else "0"


def main() -> None:
    parser = stub_parser(__doc__)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--cards", nargs="+", type=float, default=list(CARDS), help="GiB")
    parser.add_argument("--longest", type=float, default=3600, help="seconds of a process")
    parser.add_argument("--add", action="store_true", help="keep the rows of an earlier run")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(work(**json.loads(arguments.job))), flush=True)
        return
    if print_earlier("fakecuda_card", arguments, table):
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    quick = arguments.quick
    rows, runs = [], []
    path = result_path("fakecuda_card", arguments.output)
    if arguments.add and path.exists():
        before = json.loads(path.read_text())
        rows = before["rows"]
        runs = [
            *before.get("runs_before", []),
            {name: before[name] for name in ("date", "command")},
        ]
    for card in [QUICK_CARD] if quick else arguments.cards:
        for way in ("checkpoint", "pgmo", "offload", "state") if quick else arguments.ways:
            rows = [row for row in rows if (row["way"], row["card"]) != (way, card)]
            rows.append(found(stub, way, card, arguments.longest, quick=quick))
            show(rows[-1])
            result = {"rows": rows} | ({"runs_before": runs} if runs else {})
            write_result("fakecuda_card", result, arguments.output, quick=quick)
    print(table(result))


if __name__ == "__main__":
    main()
