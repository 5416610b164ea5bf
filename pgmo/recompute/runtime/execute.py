"""Partition function and compilers with which AOTAutograd runs a planned step.

    decide.py -> Schedule -> two graphs -> runners
         ^                                    |
         +--- workspaces measured in a real step

The first run of each half is measured, operator by operator. If operators took more workspace than
predicted, the step can be planned again with the measured bytes. A plan also assumes which outputs
get gradients. The forward pass saves enough for gradients of all outputs, so other backward passes
work, too, and the step can be planned again for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from pgmo.recompute.capture.absent import (
    keep_alive,
    narrowed,
    remove_kept,
    tangents,
    unlikely_gradients,
    without,
)
from pgmo.recompute.capture.compat import Runner, fakes, is_tangent, mark_boxed
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.capture.memory_use import workspaces
from pgmo.recompute.capture.memory_use.facts import share_facts
from pgmo.recompute.capture.memory_use.meter import Meter, Section, meter
from pgmo.recompute.capture.quiet import without_collector
from pgmo.recompute.planners.evaluator import Choice
from pgmo.recompute.runtime.announce import announced
from pgmo.recompute.runtime.decide import (
    PlannedStep,
    Settings,
    capture_step,
    choice_on,
    plan_step,
)
from pgmo.recompute.runtime.interpreter import Interpreter
from pgmo.recompute.runtime.offload.host import HostArenas
from pgmo.recompute.runtime.rewrite import backward, split

Names = frozenset[str]


@dataclass
class StepCompiler:
    """Partition function and two compilers for AOTAutograd, with their measurements.

    Attributes:
        expected: names of the tangents that the plan expects to get; None to guess them.
        planned: the plan; None before the graph is captured.
        forward: measurement of the forward pass; None before it.
        backward: measurement of a backward pass with the expected tangents; None before it.
        came: names of all tangents that backward passes got; None before the first.
        is_measured: whether the next backward pass belongs to the measured forward pass.
        has_new_workspaces: whether operators took more workspace than the plan assumes.
        host: host buffers for offloaded values.
        is_alone: whether the graph is the whole step.
    """

    settings: Settings
    expected: Names | None = None
    planned: PlannedStep | None = None
    forward: Section | None = None
    backward: Section | None = None
    came: Names | None = None
    is_measured: bool = False
    has_new_workspaces: bool = False
    host: HostArenas = field(default_factory=HostArenas)
    is_alone: bool = True
    _narrow: fx.GraphModule | None = None
    _whole: Captured | None = None

    def partition(
        self, joint: fx.GraphModule, _inputs: object, *, num_fwd_outputs: int, **_more: object
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Plan a joint graph and split it; AOTAutograd's partition function."""
        self.plan(joint, num_fwd_outputs)
        return self.split()

    def plan(self, joint: fx.GraphModule, outputs: int) -> None:
        """Plan a joint graph without splitting it."""
        self.planned, self._whole = self._plan(joint, outputs)

    def chosen(self, choice: Choice, settings: Settings) -> "StepCompiler":
        """Return a compiler for another choice on the finest operations of the same plan."""
        assert self.planned is not None
        finest = self.planned.finest()
        planned = replace(
            self.planned,
            captured=finest,
            schedule=choice.on(finest.graph),
            planner=choice.planner,
            budget="min",
        )
        return StepCompiler(settings, self.expected, planned, is_alone=False, _whole=self._whole)

    def split(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return the forward and the backward graph of the plan."""
        assert self.planned is not None
        captured, schedule, whole = self.planned.captured, self.planned.schedule, self._whole
        if whole is None:
            return split(captured, schedule, self.host)
        self._narrow = backward(captured, schedule, self.host)
        remove_kept(self._narrow)
        of_whole = choice_on(schedule, captured, whole)
        if captured.names(schedule.offloaded) != whole.names(of_whole.offloaded):
            self._narrow = None  # It would fetch values that are never sent.
        return split(whole, of_whole, self.host)

    def _plan(self, joint: fx.GraphModule, outputs: int) -> tuple[PlannedStep, Captured | None]:
        """Return the plan for the expected tangents, and the whole graph if it has others."""
        given = [node.name for node in tangents(joint)]
        if self.expected is None:
            self.expected = self._expected(joint, given)
        absent = frozenset(given) - self.expected
        share_facts(joint.graph.nodes)
        if not absent:
            return plan_step(joint, outputs, self.settings), None
        whole = capture_step(joint, outputs, self.settings)
        return plan_step(keep_alive(*narrowed(joint, absent)), outputs, self.settings), whole

    def _expected(self, joint: fx.GraphModule, given: Sequence[str]) -> Names:
        differentiated = self.settings.differentiated
        if differentiated is None:
            return frozenset(given) - unlikely_gradients(joint)
        if differentiated == "all" or len(differentiated) != len(given):
            return frozenset(given)
        return frozenset(name for name, comes in zip(given, differentiated, strict=True) if comes)

    def compile_forward(self, module: fx.GraphModule, _inputs: Sequence[Any]) -> Runner:
        """Return a runner of the operators, which measures them the first time."""
        half = _Pass(module, None)

        def watched(arguments: list[Any]) -> Any:
            if self.forward is not None:
                return half.run(arguments)
            result, self.forward = self._metered(half, arguments)
            return result

        return mark_boxed(self.host.guarded(watched if self.settings.check else half.run))

    def compile_backward(self, module: fx.GraphModule, _inputs: Sequence[Any]) -> Runner:
        """Return a runner that skips operators for absent tangents and measures once."""
        places = [node.name for node in module.graph.find_nodes(op="placeholder")]
        wanted = [node.name for node in tangents(module)]
        halves: dict[Names, _Pass] = {frozenset(wanted): _Pass(module, None)}
        if self._narrow is not None:
            self._add_narrow(halves, places)

        def run(arguments: list[Any]) -> Any:
            given = dict(zip(places, arguments, strict=True))
            came = frozenset(name for name in wanted if given[name] is not None)
            del given
            self.came = came if self.came is None else self.came | came
            if came not in halves:
                halves[came] = _Pass.of(without(module, {*wanted} - came), places)
            half = halves[came]
            is_new = self.backward is None and came == self.expected and self.settings.check
            if is_new and self.is_measured:
                self.is_measured = False
                result, self.backward = self._metered(half, arguments)
                return result
            return half(arguments)

        return mark_boxed(self.host.guarded(run))

    def _add_narrow(self, halves: dict[Names, "_Pass"], places: list[str]) -> None:
        assert self._narrow is not None
        assert self.expected is not None
        try:
            halves[self.expected] = _Pass.of(self._narrow, places)
        except ValueError:
            self._narrow = None
            return  # It reads an unsaved value: `without` narrows the whole graph instead.

    @property
    def measured(self) -> int | None:
        """Peak of the first step in bytes, as predictions count it; None before it has run."""
        if self.forward is None or self.backward is None or self.planned is None:
            return None
        return max(self.forward.peak, self.forward.net + self.backward.peak)

    def _metered(self, half: "_Pass", arguments: list[Any]) -> tuple[Any, Section | None]:
        """Run a half, and measure each operator unless another measurement is under way."""
        module = half.module
        measuring = meter(_device(module)) if self.planned is not None else None
        if measuring is None:
            return half(arguments), None
        with without_collector(), measuring:
            half.take(arguments)
            held = _own_gradients(module, arguments) if self.is_alone else []
            result = _Metered(module, measuring).boxed_run(arguments)
        del held  # Freed only now, because the meter did not see their allocation.
        return result, self._learn(module, measuring)

    def _learn(self, module: fx.GraphModule, measured: Meter) -> Section:
        """Store the workspaces; return the half's section without memory that libraries keep.

        For example, cuBLAS allocates a workspace in the first step of a thread and never frees it.
        """
        nodes = {node.name: node for node in module.graph.nodes}
        kept = peak = 0
        for section in measured.sections:
            node = nodes[section.label]
            written = workspaces.written(node) + workspaces.held(node)
            stays = max(0, section.net - written)
            kept += stays
            peak = max(peak, section.start + section.peak - kept)
            self.has_new_workspaces |= workspaces.correct(
                node, max(0, section.peak - written - stays)
            )
        whole = measured.whole
        return replace(whole, peak=peak, net=whole.net - kept) if kept else whole


class _Pass:
    """Forward pass, or backward pass for one set of tangents.

    `inputs` are positions of its inputs among the arguments of the whole pass; None for all.
    """

    def __init__(self, module: fx.GraphModule, inputs: Sequence[int] | None) -> None:
        self.module, self._inputs = module, inputs
        self.run = announced(module)

    def take(self, arguments: list[Any]) -> None:
        """Drop the arguments that it does not read."""
        if self._inputs is not None:
            arguments[:] = [arguments[place] for place in self._inputs]

    def __call__(self, arguments: list[Any]) -> Any:
        self.take(arguments)
        return self.run(arguments)

    @classmethod
    def of(cls, module: fx.GraphModule, places: list[str]) -> "_Pass":
        """Create a half from the names of the whole pass's inputs."""
        needed = module.graph.find_nodes(op="placeholder")
        return cls(module, [places.index(node.name) for node in needed])


def _device(module: fx.GraphModule) -> torch.device:
    for node in module.graph.find_nodes(op="placeholder"):
        for one in fakes(node.meta.get("val")):
            if one.device.type != "cpu" or not is_tangent(node):
                return one.device
    return torch.device("cpu")


def _own_gradients(module: fx.GraphModule, arguments: list[Any]) -> list[Any]:
    """Replace tangents by copies, whose memory the meter sees; return the originals."""
    before = list(arguments)
    places = module.graph.find_nodes(op="placeholder")
    given = [index for index, node in enumerate(places) if is_tangent(node)]
    for index in given:
        if isinstance(arguments[index], torch.Tensor):
            arguments[index] = arguments[index].clone()
    return [before[index] for index in given]


class _Metered(Interpreter):
    def __init__(self, module: fx.GraphModule, measuring: Meter) -> None:
        super().__init__(module)
        self._measuring = measuring

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        with self._measuring.section(n.name):
            return super().run_node(n)
