"""Recomputation within a budget: pgmo against PyTorch's memory budget and per-block checkpointing.

    python bench/recompute.py

For each network and each budget, a fraction of the peak without recomputation: the share of the
forward pass's cost that is recomputed by the cheapest plan that fits. Peaks are measured from
allocator events of a real step, above parameters, buffers and inputs; shares are of the
flops-and-bytes model, the same for pgmo and for PyTorch. `activation_memory_budget` is no bound on
the peak, so it is swept, and of what fits the cheapest counts. Gradients and buffers are compared
bit by bit with those of the plain model. One thread.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _machine import RESULTS, write_result
from _recompute_networks import BLOCKS, NAMES, make
from torch import Tensor, fx, nn
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import checkpoint

import pgmo
from pgmo.recompute.compat import backend, boxed
from pgmo.recompute.costs import modelled
from pgmo.recompute.meter import meter
from pgmo.units import format_bytes

FRACTIONS = (0.8, 0.6, 0.5, 0.4)
SWEEP = (0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
STEPS = 3
WANTED = {
    "unet": (0.07, 0.16, 0.22, 0.45),
    "resnet": (0.11, 0.24, 0.36, 0.43),
    "densenet": (0.14, 0.28, 0.34, 0.43),
    "gpt": (0.03, 0.11, 0.26, 0.37),
}
"""Shares that a prototype reached on networks of these kinds."""


class Measured:
    """A model's steps: peak, seconds, gradients and buffers."""

    def __init__(self, model: nn.Module, batch: tuple[Tensor, ...]) -> None:
        self._model, self._batch = model, batch
        self._step()  # compiles, measures itself, fills caches
        self.state = [one.grad.clone() for one in model.parameters() if one.grad is not None]
        self.state += [one.clone() for one in model.buffers()]
        self._step()
        seconds = []
        for _ in range(STEPS):
            begin = time.perf_counter()
            self._step()
            seconds.append(time.perf_counter() - begin)
        self.seconds = statistics.median(seconds)
        self._drop()
        measuring = meter(torch.device("cpu"))
        assert measuring is not None
        with measuring:
            self._step(drop=False)
        self.peak = measuring.whole.peak

    def _drop(self) -> None:
        for one in self._model.parameters():
            one.grad = None

    def _step(self, drop: bool = True) -> None:
        if drop:
            self._drop()
        torch.manual_seed(1)
        self._model(*self._batch).backward()

    def row(self, plain: "Measured") -> dict[str, Any]:
        """The figures beside those of the plain model."""
        worst = max(
            (one - other).abs().max().item() / max(other.abs().max().item(), 1e-30)
            for one, other in zip(self.state, plain.state, strict=True)
        )
        return {
            "peak": self.peak,
            "fraction": self.peak / plain.peak,
            "seconds": self.seconds,
            "time": self.seconds / plain.seconds,
            "identical": all(map(torch.equal, self.state, plain.state)),
            "largest_relative_error": worst,
        }


def with_pgmo(name: str, plain: Measured) -> list[dict[str, Any]]:
    rows = []
    for fraction in FRACTIONS:
        model, batch = make(name)
        budget = int(fraction * plain.peak)
        begin = time.perf_counter()
        try:
            made, plan = pgmo.recompute(model, batch, budget)
        except pgmo.BudgetError as error:
            rows.append({"budget": fraction, "refused": str(error)})
            continue
        row = {
            "budget": fraction,
            "share": plan.overhead,
            "predicted": plan.peak,
            "planner": plan.planner,
            "planning_seconds": time.perf_counter() - begin,
        }
        row.update(Measured(made, batch).row(plain))
        rows.append(row)
    return rows


def with_memory_budget(name: str, plain: Measured) -> list[dict[str, Any]]:
    rows = []
    for budget in SWEEP:
        shares: list[float] = []
        torch._dynamo.reset()
        model, batch = make(name)
        with config.patch(activation_memory_budget=budget):
            compiled = torch.compile(model, backend=backend(_counting(shares), _as_is, _as_is))
            row = Measured(compiled, batch).row(plain)
        rows.append({"activation_memory_budget": budget, "share": shares[-1], **row})
    return rows


def _counting(shares: list[float]) -> Callable[..., Any]:
    """PyTorch's partition function, and the share of the forward pass that it recomputes."""

    def partition(joint: fx.GraphModule, inputs: object, **options: Any) -> Any:
        halves = min_cut_rematerialization_partition(joint, inputs, **options)
        forward, backward = (
            {node.name: node for node in half.graph.nodes if _computes(node)} for half in halves
        )
        again = sum(modelled(node) for name, node in backward.items() if name in forward)
        shares.append(again / sum(map(modelled, forward.values())))
        return halves

    return partition


def _computes(node: fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    returns = node.target._schema.returns
    return all(one.alias_info is None for one in returns)  # else a view


def _as_is(module: fx.GraphModule, _inputs: object) -> Any:
    return boxed(module)


def with_checkpoints(name: str, plain: Measured) -> dict[str, Any]:
    model, batch = make(name)
    for block in model.modules():
        if isinstance(block, BLOCKS):
            block.forward = _checkpointed(block.forward)  # type: ignore[method-assign]
    return Measured(model, batch).row(plain)


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: checkpoint(forward, *arguments, use_reentrant=False)


def measure(name: str) -> dict[str, Any]:
    model, batch = make(name)
    plain = Measured(copy.deepcopy(model), batch)
    return {
        "network": name,
        "plain_peak": plain.peak,
        "plain_seconds": plain.seconds,
        "pgmo": with_pgmo(name, plain),
        "activation_memory_budget": with_memory_budget(name, plain),
        "checkpoint": with_checkpoints(name, plain),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| network | budget | pgmo: share, peak, time | memory budget: the same | wanted |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        for index, ours in enumerate(row["pgmo"]):
            budget = ours["budget"]
            fits = [
                one for one in row["activation_memory_budget"] if one["fraction"] <= 1.02 * budget
            ]
            theirs = min(fits, key=lambda one: one["share"], default=None)
            lines.append(
                f"| {row['network']} | {budget} | {_cell(ours)} | {_cell(theirs)} "
                f"| {WANTED[row['network']][index]} |"
            )
        lines.append(f"| {row['network']} | per block | {_cell(row['checkpoint'])} | | |")
    return "\n".join(lines)


def _cell(one: dict[str, Any] | None) -> str:
    if one is None or "refused" in one:
        return "none fits"
    wrong = one["largest_relative_error"]
    share = f"{one['share']:.3f}, " if "share" in one else ""
    bits = "" if one["identical"] else f", off by up to {wrong:.1%}"
    return f"{share}{one['fraction']:.2f}, {one['time']:.2f}x{bits}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--table", action="store_true", help="print the last results")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if args.table:
        path = args.output or RESULTS / "recompute.json"
        print(table(json.loads(path.read_text(encoding="utf-8"))["rows"]))
        return
    torch.set_num_threads(1)
    rows = []
    for name in args.networks:
        rows.append(measure(name))
        peak = format_bytes(rows[-1]["plain_peak"])
        print(f"{name}: {peak} without recomputation\n{table(rows[-1:])}", flush=True)
    software = {"torch": torch.__version__, "threads": 1}
    write_result("recompute", {**software, "rows": rows}, args.output)


if __name__ == "__main__":
    main()
