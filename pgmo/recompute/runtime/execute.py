"""Makes a planned step run: the partition function, and the runners of its halves.

    decide.py -> Schedule -> two graphs -> runners
         ^                                    |
         +--- workspaces as they were in a real step

The first time that each half runs it is measured, operator by operator. Where the peak was not
what was predicted, what the operators took is noted, and the step can be planned again. The same
goes for which outputs are differentiated: a plan is made for some, and what the forward pass saves
is enough for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from pgmo.recompute.capture.absent import hold, narrowed, release, tangents, unlikely, without
from pgmo.recompute.capture.compat import Runner, fakes, is_tangent, mark_boxed
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.capture.memory_use import workspaces
from pgmo.recompute.capture.memory_use.facts import forget_facts, share_facts
from pgmo.recompute.capture.memory_use.meter import Meter, Section, meter
from pgmo.recompute.capture.quiet import without_collector
from pgmo.recompute.runtime.announce import announced
from pgmo.recompute.runtime.decide import (
    PlannedStep,
    Settings,
    capture_step,
    choice_on,
    plan_step,
)
from pgmo.recompute.runtime.interpreter import Interpreter
from pgmo.recompute.runtime.offload.host import Host
from pgmo.recompute.runtime.rewrite import backward, split

Names = frozenset[str]


@dataclass
class StepCompiler:
    """A partition function and two compilers for AOTAutograd, and what they have seen.

    Attributes:
        expected: gradients of outputs that will come, by the names of their nodes; None to guess.
        planned: there once the graph was captured.
        forward: the forward pass as it was measured; None before.
        backward: the same of the backward pass, once the gradients were those expected.
        came: gradients of outputs that have come; None before the first backward pass.
        is_measured: whether the backward pass that runs is that of the call that was measured.
        news: whether operators took more than the plan was made with.
        host: the buffers on the host for offloaded values.
        is_alone: whether the graph is the whole step.
    """

    settings: Settings
    expected: Names | None = None
    planned: PlannedStep | None = None
    forward: Section | None = None
    backward: Section | None = None
    came: Names | None = None
    is_measured: bool = False
    news: bool = False
    host: Host = field(default_factory=Host)
    is_alone: bool = True
    _narrow: fx.GraphModule | None = None

    def partition(
        self, joint: fx.GraphModule, _inputs: object, *, num_fwd_outputs: int, **_more: object
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Plan a joint graph and split it; AOTAutograd's partition function."""
        planned, whole = self._plan(joint, num_fwd_outputs)
        self.planned, captured, schedule = planned, planned.captured, planned.schedule
        forget_facts(*joint.graph.nodes, *captured.joint.graph.nodes)
        if whole is None:
            return split(captured, schedule, self.host)
        self._narrow = backward(captured, schedule, self.host)
        release(self._narrow)
        of_whole = choice_on(schedule, captured, whole)
        if captured.names(schedule.offloaded) != whole.names(of_whole.offloaded):
            self._narrow = None  # it fetches what the forward pass has not sent
        return split(whole, of_whole, self.host)

    def plan(self, joint: fx.GraphModule, outputs: int) -> PlannedStep:
        """Return the plan of a joint graph, which is not split."""
        planned, _ = self._plan(joint, outputs)
        forget_facts(*joint.graph.nodes, *planned.captured.joint.graph.nodes)
        return planned

    def _plan(self, joint: fx.GraphModule, outputs: int) -> tuple[PlannedStep, Captured | None]:
        """Return the plan for the gradients that come, and the whole graph if others do not."""
        given = [node.name for node in tangents(joint)]
        if self.expected is None:
            self.expected = self._expected(joint, given)
        absent = frozenset(given) - self.expected
        share_facts(joint.graph.nodes)
        if not absent:
            return plan_step(joint, outputs, self.settings), None
        whole = capture_step(joint, outputs, self.settings)
        return plan_step(hold(*narrowed(joint, absent)), outputs, self.settings), whole

    def _expected(self, joint: fx.GraphModule, given: Sequence[str]) -> Names:
        differentiated = self.settings.differentiated
        if differentiated is None:
            return frozenset(given) - unlikely(joint)
        if differentiated == "all" or len(differentiated) != len(given):
            return frozenset(given)
        return frozenset(name for name, comes in zip(given, differentiated, strict=True) if comes)

    def compile_forward(self, module: fx.GraphModule, _inputs: Sequence[Any]) -> Runner:
        """Return a runner of the operators, which measures them the first time."""
        half = _Half(module, None)

        def watched(arguments: list[Any]) -> Any:
            if self.forward is not None:
                return half.run(arguments)
            result, self.forward = self._metered(half, arguments)
            return result

        return mark_boxed(self.host.guarded(watched if self.settings.check else half.run))

    def compile_backward(self, module: fx.GraphModule, _inputs: Sequence[Any]) -> Runner:
        """Return a runner of the operators, without those of outputs that have no gradients.

        It measures them the first time that the gradients are the expected ones.
        """
        places = [node.name for node in module.graph.find_nodes(op="placeholder")]
        wanted = [node.name for node in tangents(module)]
        halves: dict[Names, _Half] = {frozenset(wanted): _Half(module, None)}
        if self._narrow is not None:
            self._add_narrow(halves, places)

        def run(arguments: list[Any]) -> Any:
            given = dict(zip(places, arguments, strict=True))
            came = frozenset(name for name in wanted if given[name] is not None)
            del given
            self.came = came if self.came is None else self.came | came
            if came not in halves:
                halves[came] = _Half.of(without(module, {*wanted} - came), places)
            half = halves[came]
            news = self.backward is None and came == self.expected and self.settings.check
            if news and self.is_measured:
                self.is_measured = False
                result, self.backward = self._metered(half, arguments)
                return result
            return half(arguments)

        return mark_boxed(self.host.guarded(run))

    def _add_narrow(self, halves: dict[Names, "_Half"], places: list[str]) -> None:
        assert self._narrow is not None
        assert self.expected is not None
        try:
            halves[self.expected] = _Half.of(self._narrow, places)
        except ValueError:
            self._narrow = None
            return  # it reads what is not handed over; the whole one, made narrower, does as well

    @property
    def measured(self) -> int | None:
        """Peak of the first step in bytes, as predictions count it; None before it has run."""
        if self.forward is None or self.backward is None or self.planned is None:
            return None
        return max(self.forward.peak, self.forward.net + self.backward.peak)

    def _metered(self, half: "_Half", arguments: list[Any]) -> tuple[Any, Section | None]:
        """Run a half operator by operator, if it can be measured now."""
        module = half.module
        measuring = meter(_device(module)) if self.planned is not None else None
        if measuring is None:
            return half(arguments), None
        with without_collector(), measuring:
            half.take(arguments)
            held = _own_gradients(module, arguments) if self.is_alone else []
            result = _Metered(module, measuring).boxed_run(arguments)
        del held  # what was not seen to come shall not be seen to go
        return result, self._learn(module, measuring)

    def _learn(self, module: fx.GraphModule, measured: Meter) -> Section:
        """Note what operators took; return the whole without what libraries keep for good.

        In the first step of a thread cuBLAS allocates a workspace, which is there from then on.
        """
        nodes = {node.name: node for node in module.graph.nodes}
        kept = peak = 0
        for section in measured.sections:
            node = nodes[section.label]
            written = workspaces.written(node) + workspaces.held(node)
            stays = max(0, section.net - written)
            kept += stays
            peak = max(peak, section.start + section.peak - kept)
            self.news |= workspaces.correct(node, max(0, section.peak - written - stays))
        whole = measured.whole
        return replace(whole, peak=peak, net=whole.net - kept) if kept else whole


class _Half:
    """A forward pass, or a backward pass for those gradients that come.

    Args:
        module: the graph.
        inputs: places of its inputs among the arguments of the whole pass; None for all of them.
    """

    def __init__(self, module: fx.GraphModule, inputs: Sequence[int] | None) -> None:
        self.module, self._inputs = module, inputs
        self.run = announced(module)

    def take(self, arguments: list[Any]) -> None:
        """Keep the arguments that it reads; the others die."""
        if self._inputs is not None:
            arguments[:] = [arguments[place] for place in self._inputs]

    def __call__(self, arguments: list[Any]) -> Any:
        self.take(arguments)
        return self.run(arguments)

    @classmethod
    def of(cls, module: fx.GraphModule, places: list[str]) -> "_Half":
        """Build a half that selects its inputs by the names of the whole one's.

        Raises:
            ValueError: it reads an input that is not among them.
        """
        needed = module.graph.find_nodes(op="placeholder")
        return cls(module, [places.index(node.name) for node in needed])


def _device(module: fx.GraphModule) -> torch.device:
    for node in module.graph.find_nodes(op="placeholder"):
        for one in fakes(node.meta.get("val")):
            if one.device.type != "cpu" or not is_tangent(node):
                return one.device
    return torch.device("cpu")


def _own_gradients(module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
    """Copy the gradients of the outputs, so that their memory is seen; return the originals."""
    before = list(arguments)
    places = module.graph.find_nodes(op="placeholder")
    given = [index for index, node in enumerate(places) if is_tangent(node)]
    for index in given:
        if isinstance(arguments[index], torch.Tensor):
            arguments[index] = arguments[index].clone()
    return [before[index] for index in given]


class _Metered(Interpreter):
    """Runs a graph operator by operator, each in a section of a meter."""

    def __init__(self, module: fx.GraphModule, measuring: Meter) -> None:
        super().__init__(module)
        self._measuring = measuring

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        with self._measuring.section(n.name):
            return super().run_node(n)
