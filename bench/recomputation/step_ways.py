"""Ways to run a training step with less memory, with one interface for measurements.

plain = Plain("plain", None, model, inputs)
ours = Planned(model, inputs, budget, 0.5)
peak(ours), ours.outcome(buffers).same(plain.outcome(buffers))
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import Tensor, fx, nn
from torch._functorch import config as functorch_config
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import CheckpointPolicy

import pgmo
from pgmo.recompute.capture.compat import Runner, backend, boxed
from pgmo.recompute.capture.joint_graph import capture

SEED = 1


@dataclass(frozen=True)
class Outcome:
    """Results of a step: loss, gradients and buffers."""

    loss: Tensor
    gradients: Sequence[Tensor]
    buffers: Sequence[Tensor]

    def same(self, other: "Outcome") -> dict[str, bool]:
        """Return whether loss, gradients and buffers are bit-identical to another outcome's."""
        return {
            "loss": torch.equal(self.loss, other.loss),
            "gradients": all(map(torch.equal, self.gradients, other.gradients)),
            "buffers": all(map(torch.equal, self.buffers, other.buffers)),
        }

    def error(self, other: "Outcome") -> float:
        """Return the largest error of a gradient, relative to its largest element."""
        return max(
            float((mine - its).abs().max() / its.abs().max().clamp_min(1e-30))
            for mine, its in zip(self.gradients, other.gradients, strict=True)
        )


class Way(ABC):
    """One way to run a training step.

    Args:
        name: name of the way.
        setting: its setting, such as a budget.
        model: module whose parameters get the gradients.
        inputs: inputs of a step.
    """

    def __init__(
        self, name: str, setting: float | str | None, model: nn.Module, inputs: Sequence[Tensor]
    ) -> None:
        self.name, self.setting, self.model, self.inputs = name, setting, model, inputs
        self.seconds: list[float] = []

    @abstractmethod
    def forward(self) -> Tensor:
        """Run the forward pass and return the loss."""

    @property
    def share(self) -> float | None:
        """Cost of operations that run twice, as a share of the forward pass, by pgmo's model."""
        return None

    def step(self) -> Tensor:
        """Run a step with a fixed seed, without the optimizer; return the loss."""
        for parameter in self.model.parameters():
            parameter.grad = None
        torch.manual_seed(SEED)
        loss = self.forward()
        loss.backward()
        return loss.detach()

    def time(self) -> None:
        """Run a step, and append its seconds to `seconds`."""
        begin = time.perf_counter()
        self.step()
        self.seconds.append(time.perf_counter() - begin)

    def outcome(self, buffers: Sequence[Tensor]) -> Outcome:
        """Run a step from the given buffers, and return copies of its results."""
        for buffer, before in zip(self.model.buffers(), buffers, strict=True):
            buffer.copy_(before)
        loss = self.step()
        gradients = [one.grad.clone() for one in self.model.parameters() if one.grad is not None]
        return Outcome(loss, gradients, [buffer.clone() for buffer in self.model.buffers()])


class Plain(Way):
    """The unchanged model, or a model that checkpoints its own blocks."""

    def forward(self) -> Tensor:
        """Call the model."""
        loss: Tensor = self.model(*self.inputs)
        return loss


class Planned(Way):
    """`pgmo.recompute` with a budget, and further `options`.

    Raises:
        BudgetError: if the budget cannot be met.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Sequence[Tensor],
        budget: int | float | str | None,
        setting: Any,
        **options: Any,
    ) -> None:
        super().__init__("pgmo", setting, model, inputs)
        begin = time.perf_counter()
        self._planned, self.plan = pgmo.recompute(model, tuple(inputs), budget=budget, **options)
        self.planning = time.perf_counter() - begin

    @property
    def share(self) -> float | None:
        """Overhead of the plan."""
        return self.plan.overhead

    def forward(self) -> Tensor:
        """Call the model that recomputes."""
        loss: Tensor = self._planned(*self.inputs)
        return loss


class MemoryBudget(Way):
    """PyTorch's `activation_memory_budget`, with eager operators.

    Args:
        budget: from 0 (recompute everything) to 1 (save what a compiled step saves by default).
    """

    def __init__(self, model: nn.Module, inputs: Sequence[Tensor], budget: float) -> None:
        super().__init__("activation_memory_budget", budget, model, inputs)
        self._partitioned = Partitioned(model)
        with functorch_config.patch(activation_memory_budget=budget):
            self.step()

    @property
    def share(self) -> float | None:
        """Cost of forward operations in the backward graph, as a share of the forward pass."""
        return self._partitioned.share

    def forward(self) -> Tensor:
        """Call the compiled model."""
        loss: Tensor = self._partitioned.model(*self.inputs)
        return loss


class Partitioned:
    """Model under PyTorch's partitioner, and the cost of what the partitioner recomputes.

    Attributes:
        model: the compiled module, which is compiled in its first call.
    """

    def __init__(self, model: nn.Module) -> None:
        self._cost = self._rerun = 0.0
        made = backend(self._partition, self._as_it_is, self._as_it_is)
        self.model = torch.compile(model, backend=made, dynamic=False)

    @property
    def share(self) -> float:
        """Cost of operations that run again, as a share of the forward pass, by pgmo's model."""
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

    @staticmethod
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
    """Return the peak of a step in bytes, without what is allocated before it."""
    for parameter in way.model.parameters():
        parameter.grad = None
    return peak_of(way.step)


def peak_of(step: Callable[[], object]) -> int:
    """Return the peak of a step in bytes from allocator events, without bytes before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    assert recorded.profiler is not None
    events = [
        (event.start_ns(), event.nbytes())
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    level = highest = 0
    for _, change in sorted(events, key=lambda event: event[0]):
        level += change
        highest = max(highest, level)
    return highest
