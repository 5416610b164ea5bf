"""Makes a planned step run: the partition function, and the runners of its halves.

    decide.py -> Schedule -> two graphs -> runners
         ^                                    |
         +--- workspaces as they were in a real step

The first time that each half runs it is measured, operator by operator. Where the peak was not
what was predicted, what the operators took is noted, and the step can be planned again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import fx

from pgmo.recompute import workspaces
from pgmo.recompute.announce import announced
from pgmo.recompute.compat import Runner, fakes, is_tangent, mark_boxed
from pgmo.recompute.decide import Planned, Settings, plan_step
from pgmo.recompute.meter import Meter, Section, meter
from pgmo.recompute.rewrite import split


@dataclass
class Step:
    """A partition function and two compilers for AOTAutograd, and what they have seen.

    Attributes:
        planned: there once the graph was captured.
        forward: the forward pass as it was measured; None before.
        backward: the same of the backward pass.
        news: whether operators took more than the plan was made with.
    """

    settings: Settings
    planned: Planned | None = None
    forward: Section | None = None
    backward: Section | None = None
    news: bool = field(default=False)

    def partition(
        self, joint: fx.GraphModule, _inputs: object, *, num_fwd_outputs: int, **_more: object
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Plans a joint graph and splits it; AOTAutograd's partition function."""
        self.planned = plan_step(joint, num_fwd_outputs, self.settings)
        return split(self.planned.captured, self.planned.schedule)

    def compile_forward(self, module: fx.GraphModule, _inputs: Sequence[Any]) -> Runner:
        """Runs operators as they are, the first time under a meter."""
        return self._runner(module, "forward")

    def compile_backward(self, module: fx.GraphModule, _inputs: Sequence[Any]) -> Runner:
        """Runs operators as they are, the first time under a meter."""
        return self._runner(module, "backward")

    @property
    def measured(self) -> int | None:
        """Peak of the first step in bytes, as predictions count it; None before it has run."""
        if self.forward is None or self.backward is None or self.planned is None:
            return None
        return max(self.forward.peak, self.forward.net + self.backward.peak)

    def _runner(self, module: fx.GraphModule, name: Literal["forward", "backward"]) -> Runner:
        run = announced(module)
        if not self.settings.check:
            return run

        def watched(arguments: list[Any]) -> Any:
            if getattr(self, name) is not None or self.planned is None:
                return run(arguments)
            measuring = meter(_device(module))
            if measuring is None:
                return run(arguments)
            with measuring:
                held = _own_gradients(module, arguments)
                result = _Metered(module, measuring).boxed_run(arguments)
            del held  # what was not seen to come shall not be seen to go
            setattr(self, name, self._learn(module, measuring))
            return result

        return mark_boxed(watched)

    def _learn(self, module: fx.GraphModule, measured: Meter) -> Section:
        """Notes what operators took; returns the whole without what libraries keep for good.

        In the first step of a thread cuBLAS allocates a workspace, which is there from then on.
        """
        nodes = {node.name: node for node in module.graph.nodes}
        kept = peak = 0
        for section in measured.sections:
            node = nodes[section.label]
            written = workspaces.written(node)
            stays = max(0, section.net - written)
            kept += stays
            peak = max(peak, section.start + section.peak - kept)
            self.news |= workspaces.correct(node, max(0, section.peak - written - stays))
        whole = measured.whole
        return replace(whole, peak=peak, net=whole.net - kept) if kept else whole


def _device(module: fx.GraphModule) -> torch.device:
    for node in module.graph.find_nodes(op="placeholder"):
        for one in fakes(node.meta.get("val")):
            if one.device.type != "cpu" or not is_tangent(node):
                return one.device
    return torch.device("cpu")


def _own_gradients(module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
    """Copies the gradients of the outputs, so that their memory is seen; returns the originals."""
    before = list(arguments)
    places = module.graph.find_nodes(op="placeholder")
    tangents = [index for index, node in enumerate(places) if is_tangent(node)]
    for index in tangents:
        if isinstance(arguments[index], torch.Tensor):
            arguments[index] = arguments[index].clone()
    return [before[index] for index in tangents]


class _Metered(fx.Interpreter):
    """Runs a graph operator by operator, each in a section of a meter."""

    def __init__(self, module: fx.GraphModule, measuring: Meter) -> None:
        super().__init__(module)
        self._measuring = measuring

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        with self._measuring.section(n.name):
            return super().run_node(n)
