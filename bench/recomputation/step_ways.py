"""Ways to run a training step with less memory, with one interface for measurements.

plain = Way("plain", None, model, inputs)
ours = Planned(model, inputs, budget, 0.5)
peak(ours), compare(ours.outcome(), plain.outcome())
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import Tensor, fx, nn
from torch._functorch import config as functorch_config
from torch.utils.checkpoint import CheckpointPolicy

import pgmo
from pgmo.recompute.capture.compat import Runner, backend, boxed
from pgmo.recompute.capture.joint_graph import capture
from pgmo.recompute.capture.memory_use.meter import Meter

Inputs = Sequence[Any] | dict[str, Any]
"""Positional arguments of a model, or keyword arguments."""

Bits = dict[str, list[Any]]
"""Results of a step: loss, gradients, buffers, and the random numbers that follow it."""


class Way:
    """One way to run a training step: the unchanged model, or a model that checkpoints its blocks.

    Args:
        name: name of the way.
        setting: its setting, such as a budget.
        model: module whose parameters get the gradients. It returns its loss, alone or under the
            key "loss".
        inputs: inputs of a step.
    """

    def __init__(
        self, name: str, setting: float | str | None, model: nn.Module, inputs: Inputs
    ) -> None:
        self.name, self.setting, self.model, self.inputs = name, setting, model, inputs
        self.seconds: list[float] = []
        self._run: Callable[..., Any] = model  # The module that is called.

    @property
    def share(self) -> float | None:
        """Cost of operations that run twice, as a share of the forward pass, by pgmo's model."""
        return None

    def step(self, seed: int = 1) -> Tensor:
        """Run a step without the optimizer; return the loss.

        The model's results live until the end, as in most programs.
        """
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)  # noqa: NPY002  (models of speech draw masks with it)
        inputs = self.inputs
        result = self._run(**inputs) if isinstance(inputs, dict) else self._run(*inputs)
        loss: Tensor = result if isinstance(result, Tensor) else result["loss"]
        loss.backward()
        return loss.detach()

    def time(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Run a step, and append its seconds to `seconds`."""
        begin = clock()
        self.step()
        self.seconds.append(clock() - begin)

    def outcome(self, seed: int = 1) -> Bits:
        """Run a step, and return copies of its results."""
        loss = self.step(seed)
        gradients = (one.grad for one in self.model.parameters())
        return {
            "loss": [loss],
            "gradients": [one if one is None else one.clone() for one in gradients],
            "buffers": [one.clone() for one in self.model.buffers()],
            "random numbers": [torch.rand(2)],
        }


class Planned(Way):
    """`pgmo.recompute` with a budget, and further `options`.

    Raises:
        BudgetError: if the budget cannot be met.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        budget: int | float | str | None,
        setting: Any,
        **options: Any,
    ) -> None:
        super().__init__("pgmo", setting, model, inputs)
        example = inputs if isinstance(inputs, dict) else tuple(inputs)
        begin = time.perf_counter()
        self._run, self.plan = pgmo.recompute(model, example, budget=budget, **options)
        self.planning = time.perf_counter() - begin

    @property
    def share(self) -> float | None:
        """Overhead of the plan."""
        return self.plan.overhead


class MemoryBudget(Way):
    """PyTorch's `activation_memory_budget`, with eager operators.

    Args:
        model: the module.
        inputs: inputs of a step.
        budget: from 0 (recompute everything) to 1 (save what a compiled step saves by default).
    """

    def __init__(self, model: nn.Module, inputs: Inputs, budget: float) -> None:
        super().__init__("activation_memory_budget", budget, model, inputs)
        self._cost = self._rerun = 0.0
        made = backend(self._partition, _as_it_is, _as_it_is)
        self._run = torch.compile(model, backend=made, dynamic=False)
        with functorch_config.patch(activation_memory_budget=budget):
            self.step()

    @property
    def share(self) -> float | None:
        """Cost of forward operations in the backward graph, as a share of the forward pass."""
        return self._rerun / self._cost if self._cost else 0.0

    def _partition(self, joint: fx.GraphModule, inputs: Any, **options: Any) -> Any:
        captured = capture(joint, options["num_fwd_outputs"])
        graph = captured.graph
        costs = {
            nodes[0].name: operation.cost
            for operation, nodes in zip(
                graph.operations[: graph.forward], captured.nodes, strict=False
            )
        }
        copy_statistics(joint)
        parts = min_cut_rematerialization_partition(joint, inputs, **options)
        self._cost += graph.forward_cost
        self._rerun += sum(
            costs.get(node.name, 0.0) for node in parts[1].graph.nodes if node.op == "call_function"
        )
        return parts


def _as_it_is(module: fx.GraphModule, _inputs: object) -> Runner:
    return boxed(module)


def copy_statistics(joint: fx.GraphModule) -> None:
    """Give batch normalisations copies of their running statistics.

    If PyTorch's partitioner recomputes a batch normalisation, it saves the statistics themselves.
    The forward pass overwrites them, so that the backward pass raises an error.
    """
    for node in list(joint.graph.nodes):
        if "batch_norm" not in str(node.target) or "backward" in str(node.target):
            continue
        arguments = list(node.args)
        for place in (3, 4):
            source = arguments[place]
            if not isinstance(source, fx.Node):
                continue
            with joint.graph.inserting_before(node):
                copied = joint.graph.call_function(torch.ops.aten.clone.default, (source,))
            copied.meta = {**node.meta, "val": source.meta["val"]}
            copied.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            arguments[place] = copied
        node.args = tuple(arguments)
    joint.recompile()


def peak(way: Way) -> int:
    """Return the peak of a step in bytes from allocator events, without bytes before it."""
    way.model.zero_grad(set_to_none=True)
    with Meter(torch.device("cpu")) as measured:
        way.step()
    return measured.peak


def compare(one: Bits, other: Bits) -> dict[str, bool]:
    """Return whether each part is bit-identical; None equals only None."""

    def equal(mine: Tensor | None, its: Tensor | None) -> bool:
        return mine is its if mine is None or its is None else torch.equal(mine, its)

    return {part: all(map(equal, one[part], other[part])) for part in one}


def largest_error(one: Bits, other: Bits) -> float:
    """Return the largest error of a gradient, relative to its largest element."""
    return max(
        float((mine - its).abs().max() / its.abs().max().clamp_min(1e-30))
        for mine, its in zip(one["gradients"], other["gradients"], strict=True)
        if mine is not None
    )


def rows_of_process(script: str, *options: str, quick: bool) -> list[dict[str, Any]]:
    """Return the rows that a benchmark measures with these options in a process of its own.

    Raises:
        subprocess.CalledProcessError: if the process fails.
    """
    with TemporaryDirectory() as folder:
        output = Path(folder) / "rows.json"
        command = [sys.executable, script, *options, "--output", str(output)]
        command += ["--quick"] if quick else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))["rows"]
        return rows
