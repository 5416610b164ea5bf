"""Planning of a joint graph within a budget.

joint graph -> capture -> Graph -> planner -> Choice -> Schedule
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import fx

from pgmo.errors import OptionError
from pgmo.recompute.capture.divide import CONVOLUTION_BACKWARD, dividable, divide, helpful, needed
from pgmo.recompute.capture.in_place import scatter_sources, sum_in_place
from pgmo.recompute.capture.joint_graph import Captured, capture, refuse_unplannable
from pgmo.recompute.capture.memory_use import workspaces
from pgmo.recompute.capture.plain_step import checkpointed, plain_step
from pgmo.recompute.planners.budget import Budget
from pgmo.recompute.planners.evaluator import Choice
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.planning import UnreachableBudgetError, plan_choice
from pgmo.recompute.planners.schedule import Schedule, refit, simulate
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime.stages import stage

Planner = Callable[[Graph, int | Literal["min"]], Choice]


@dataclass(frozen=True)
class Settings:
    """Settings of planning.

    Args:
        budget: largest peak: bytes, a share, "min" or None.
        planner: called with a graph and a budget; returns a choice. If None, pgmo searches.
        rate: bytes per second of a link to the host; None to offload nothing.
        measure: whether to measure the workspaces of operators, and a step.
        in_place: whether to add up gradients in place. Inductor needs graphs without mutations.
        shapes: choices found for other calls of the model.
        anew: whether to search again, regardless of `shapes`.
        differentiated: whether each output with a derivative gets a gradient; None to guess.
        joins: whether to undo divisions of convolutions that the budget does not need.
        whole: whether to refuse steps that are not a single graph.

    Raises:
        OptionError: if `planner` is given with `rate`, or cannot be called.
    """

    budget: Budget = None
    planner: Planner | None = None
    rate: float | None = None
    measure: bool = True
    in_place: bool = True
    shapes: Shapes = field(default_factory=Shapes, compare=False, repr=False)
    anew: bool = False
    differentiated: tuple[bool, ...] | None = None
    joins: bool = True
    whole: bool = False

    def __post_init__(self) -> None:
        if self.planner is None:
            return
        if self.rate is not None:
            raise OptionError("offload and planner are given; only pgmo's own search offloads")
        if not callable(self.planner):
            raise OptionError(
                f"planner is {self.planner!r}; give a function of a graph and a budget"
            )


@dataclass(frozen=True, eq=False)
class PlannedStep:
    """Captured step with its schedule.

    Args:
        captured: the graph and its nodes.
        schedule: the planned schedule.
        default: schedule of the plain model, with its own checkpoints.
        planner: name of the planner that found the choice.
        finest: returns the step with all helpful divisions of convolutions (`divide.py`).
        budget: bytes that the peak must not exceed, "min", or None.
        graphs: number of graph calls in the step.
    """

    captured: Captured
    schedule: Schedule
    default: Schedule
    planner: str
    finest: Callable[[], Captured]
    budget: int | Literal["min"] | None
    graphs: int = 1


def plan_step(joint: fx.GraphModule, outputs: int, settings: Settings) -> PlannedStep:
    """Capture a joint graph, and plan which values to drop."""
    if settings.in_place:
        scatter_sources(joint)
        sum_in_place(joint)
    stage("measures operators")
    undivided = capture_step(joint, outputs, settings)
    captured_peak = simulate(undivided.graph).peak
    alone = plain_step(undivided) if settings.in_place else undivided.graph
    default = simulate(alone, (), checkpointed(undivided, alone))
    budget = settings.shapes.limit(undivided.graph, settings.budget, default.peak)
    fine = functools.cache(functools.partial(_finest, undivided, settings))
    if budget is None:
        return PlannedStep(undivided, simulate(undivided.graph), default, "default", fine, None)
    captured = finest = fine() if budget == "min" or budget < captured_peak else undivided
    choice, budget = choose(finest.graph, budget, settings, default.peak)
    stage("writes the planned step")
    schedule = choice.on(finest.graph)
    limit = schedule.peak if budget == "min" else budget
    if finest is not undivided and settings.joins:
        kept = needed(finest, schedule, limit, _workspaces(undivided, settings))
        less = capture_step(divide(joint, kept), outputs, settings) if kept else undivided
        again = choice_on(schedule, finest, less)
        if again.peak <= limit:
            captured, schedule = less, again
    return PlannedStep(captured, schedule, default, choice.planner, fine, budget)


def choice_on(schedule: Schedule, captured: Captured, other: Captured) -> Schedule:
    """Return the schedule of the same choice on another capture of the step.

    Operations correspond by name. If the operation that a rerun precedes is missing in `other`, the
    rerun precedes the next operation that both captures have. A missing operation has no reruns.
    """
    dropped, graph = schedule.recomputed, captured.graph
    is_choice = dropped.issubset(graph.candidates())
    if is_choice and simulate(graph, dropped).reruns == schedule.reruns:
        return simulate(other.graph, other.numbers(captured.names(dropped)))
    at = {nodes[0].name: index for index, nodes in enumerate(other.nodes) if nodes}
    moments: list[int] = []
    following = len(other.graph.operations) - 1
    for nodes in reversed(captured.nodes):
        following = at.get(nodes[0].name, following) if nodes else following
        moments.append(following)
    moments.reverse()
    moved = {
        (moments[moment], at[captured.nodes[index][0].name])
        for moment, index in schedule.reruns
        if captured.nodes[index][0].name in at
    }
    fitting = tuple(sorted((moment, index) for moment, index in moved if index < moment))
    away = other.numbers(captured.names(schedule.offloaded))
    return refit(other.graph, fitting, away, schedule.transfers)


def choose(
    graph: Graph, budget: int | Literal["min"], settings: Settings, default: int
) -> tuple[Choice, int | Literal["min"]]:
    """Return a choice, if possible a known choice of another shape, and the budget that it meets.

    `default` is the peak of the plain model in bytes, for the message of an error.
    """
    shapes = settings.shapes
    known = None if settings.anew else shapes.known(graph, budget)
    if known is not None:
        return known, budget
    stage(f"plans for {len(graph.operations):,} operations")
    wanted = "min" if settings.budget == "min" else budget
    planner = settings.planner
    if planner is None:  # A callable object of the user may count as false.
        planner = functools.partial(plan_choice, rate=settings.rate)
    try:
        choice = planner(graph, wanted)
    except UnreachableBudgetError as error:
        raise error.of_model(default) from None
    shapes.note(graph, choice, settings.budget)
    return choice, wanted


def _finest(undivided: Captured, settings: Settings) -> Captured:
    """Return a capture that divides the convolutions which take less memory divided.

    Without any of these convolutions, the result is `undivided`.
    """
    names = dividable(undivided)
    if not names:
        return undivided
    joint, outputs = undivided.joint, undivided.outputs
    divided = capture_step(divide(joint, names), outputs, settings)
    less = helpful(divided, _workspaces(undivided, settings))
    if not less:
        return undivided
    return divided if less == names else capture_step(divide(joint, less), outputs, settings)


def capture_step(joint: fx.GraphModule, outputs: int, settings: Settings) -> Captured:
    """Capture a joint graph, and measure its operators if settings allow it."""
    refuse_unplannable(joint)
    if not settings.measure:
        return capture(joint, outputs)
    nodes = [node for node in joint.graph.nodes if node.op == "call_function"]
    # Operators that move fewer bytes are not measured: 1 KiB, or 1/10,000 of all written bytes.
    least = max(1024, sum(workspaces.written(node) for node in nodes) // 10_000)
    workspaces.measure(nodes, least=least)
    return capture(joint, outputs, workspaces.measured)


def _workspaces(captured: Captured, settings: Settings) -> dict[str, int]:
    """Return the workspace of each convolution's backward node in bytes, by name, if measured."""
    if not settings.measure:
        return {}
    nodes = captured.joint.graph.find_nodes(op="call_function", target=CONVOLUTION_BACKWARD)
    return {node.name: workspaces.measured(node).workspace for node in nodes}
