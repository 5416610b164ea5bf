"""Plans a captured step and makes it run: the partition function, and the runners of its halves.

    capture -> Graph -> plan -> Schedule -> two graphs -> runners
                  ^                                          |
                  +--- workspaces as they were in a real step

The first time that each half runs it is measured, operator by operator. Where the peak was not
what was predicted, what the operators took is noted, and the step can be planned again.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from pgmo.errors import BudgetError, OptionError
from pgmo.recompute import workspaces
from pgmo.recompute.announce import announced
from pgmo.recompute.budget import Budget, Share
from pgmo.recompute.capture import Captured, capture
from pgmo.recompute.compat import Runner, fakes, is_tangent, mark_boxed
from pgmo.recompute.costs import modelled
from pgmo.recompute.divide import CONVOLUTION_BACKWARD, dividable, divide, needed
from pgmo.recompute.graph import Graph
from pgmo.recompute.meter import Meter, Section, meter
from pgmo.recompute.planning import PLANNERS, Choice, plan_choice, propose, rank
from pgmo.recompute.rewrite import split
from pgmo.recompute.schedule import Schedule, simulate
from pgmo.units import format_bytes

Planner = Callable[[Graph, int | Literal["min"]], Choice]


def find_planner(name: str | Planner) -> Planner:
    """A planner by its name: "search", or one of `PLANNERS`, whose best choice is taken.

    Raises:
        OptionError: there is none of that name.
    """
    if not isinstance(name, str):
        return name
    if name == "search":
        return plan_choice
    if name not in PLANNERS:
        raise OptionError(f"no planner is called {name!r}; there are search, {', '.join(PLANNERS)}")
    return functools.partial(_best_of, name)  # which can be pickled, as the model with it


def _best_of(name: str, graph: Graph, budget: int | Literal["min"]) -> Choice:
    limit = None if budget == "min" else budget
    found = propose(graph, planners=[name])
    best = min(found, key=lambda one: rank(one, limit))
    if limit is not None and best.peak > limit:
        raise BudgetError(
            f"the planner {name} finds nothing within {format_bytes(limit)}: its least peak "
            f"is {format_bytes(best.peak)} ({best.peak} bytes). Give that, or planner='search'"
        )
    return Choice(best.recomputed, best.peak, best.overhead, best.planner)


@dataclass(frozen=True)
class Settings:
    """How steps are planned.

    Args:
        budget: of the peak.
        planner: finds what to forget in a graph for a budget.
        costs: "model" or "measured".
        measure: run operators on the device to learn their workspaces.
        check: measure the first step.
    """

    budget: Budget = None
    planner: Planner = plan_choice
    costs: Literal["model", "measured"] = "model"
    measure: bool = True
    check: bool = True


@dataclass(frozen=True, eq=False)
class Planned:
    """One captured step and what was decided for it.

    Args:
        captured: the graph and its nodes.
        schedule: of the chosen operations.
        default: schedule in which nothing is forgotten.
        planner: name of what found the choice.
        finest: the step in the smallest operations (`divide`), as the planner saw it.
        budget: bytes that the peak was not to exceed, "min", or None.
    """

    captured: Captured
    schedule: Schedule
    default: Schedule
    planner: str
    finest: Graph
    budget: int | Literal["min"] | None


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
            setattr(self, name, measuring.whole)
            self._learn(module, measuring)
            return result

        return mark_boxed(watched)

    def _learn(self, module: fx.GraphModule, measured: Meter) -> None:
        nodes = {node.name: node for node in module.graph.nodes}
        for section in measured.sections:
            node = nodes[section.label]
            taken = section.peak - workspaces.written(node)
            self.news |= workspaces.correct(node, max(0, taken))


def plan_step(joint: fx.GraphModule, outputs: int, settings: Settings) -> Planned:
    """Groups a joint graph, measures its operators, and decides what to forget.

    Raises:
        BudgetError: the budget cannot be met.
        GraphError: the graph cannot be planned for.
    """
    whole = _capture(joint, outputs, settings)
    default = simulate(whole.graph)
    budget = settings.budget
    if isinstance(budget, Share):
        budget = budget.of(default.peak)
    if budget is None:
        schedule = simulate(whole.graph, whole.forgotten)
        return Planned(whole, schedule, default, "marked regions", whole.graph, None)
    captured = finest = whole
    names = dividable(joint)
    tight = budget == "min" or budget < default.peak
    if names and tight:
        captured = finest = _capture(divide(joint, names), outputs, settings)
    choice = settings.planner(finest.graph, budget)
    schedule = simulate(finest.graph, choice.recomputed)
    limit = schedule.peak if budget == "min" else budget
    if finest is not whole:
        kept = needed(finest, schedule, limit, _workspaces(whole, settings))
        less = _capture(divide(joint, kept), outputs, settings) if kept else whole
        again = simulate(less.graph, choice.recomputed)
        if again.peak <= limit:
            captured, schedule = less, again
    both = simulate(captured.graph, choice.recomputed | captured.forgotten)
    if captured.forgotten and both.peak <= limit:
        schedule = both
    return Planned(captured, schedule, default, choice.planner, finest.graph, budget)


def _capture(joint: fx.GraphModule, outputs: int, settings: Settings) -> Captured:
    timed = settings.costs == "measured"
    if settings.measure or timed:
        nodes = [node for node in joint.graph.nodes if node.op == "call_function"]
        workspaces.measure(nodes, least=_least(nodes))
    return capture(
        joint,
        outputs,
        workspaces.seconds if timed else modelled,
        workspaces.workspace if settings.measure else None,
    )


def _workspaces(captured: Captured, settings: Settings) -> dict[str, int]:
    """Bytes by the names of nodes."""
    if not settings.measure:
        return {}
    nodes = captured.joint.graph.find_nodes(op="call_function", target=CONVOLUTION_BACKWARD)
    return {node.name: workspaces.workspace(node) for node in nodes}


def _least(nodes: list[fx.Node]) -> int:
    """An operator that moves less than a ten-thousandth of all that is written never matters."""
    return max(1024, sum(workspaces.written(node) for node in nodes) // 10_000)


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
