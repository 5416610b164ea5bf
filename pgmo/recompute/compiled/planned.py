"""The plan of a step: one graph of all graphs for the planner, and the share of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from torch import Tensor

from pgmo.recompute.capture.by_itself import checkpointed
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.compiled.discovery import Discovery, GraphCall
from pgmo.recompute.compiled.graph import CompiledGraph
from pgmo.recompute.parts.decided import Decided, structure
from pgmo.recompute.parts.divided import as_captured
from pgmo.recompute.parts.probe import part_settings
from pgmo.recompute.parts.together import Together, together
from pgmo.recompute.parts.trace import PartCall, StepTrace
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.schedule import Schedule, simulate
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime.decide import PlannedStep, Settings, choose

if TYPE_CHECKING:
    from pgmo.recompute.runtime.call import CapturedCall


@dataclass(eq=False)
class StepPlan:
    """A planned step.

    Args:
        planned: of the whole step.
        numbers: for each call of a graph, by its ordinal, which of the graph's plans it runs.
    """

    planned: PlannedStep
    numbers: dict[tuple[CompiledGraph, int], int]


@dataclass(frozen=True)
class _Record:
    """What `together` reads of a captured call."""

    planned: PlannedStep
    registered: Sequence[Tensor] = field(default=())


def plan(found: Discovery, settings: Settings) -> StepPlan:
    """Plan a step within one budget.

    Raises:
        BudgetError: the budget cannot be met.
        GraphError: a graph cannot be planned for.
    """
    if len(found.calls) == 1:
        (call,) = found.calls
        ((_, came),) = found.backward_calls
        flags = replace(settings, differentiated=came)
        chosen = call.graph.add(flags)
        planned = call.graph.halves[chosen].step.planned
        assert planned is not None
        return StepPlan(planned, {(call.graph, call.ordinal): chosen})
    return _plan_together(found, settings)


def _plan_together(found: Discovery, settings: Settings) -> StepPlan:
    came = dict(found.backward_calls)
    wanted = [
        part_settings(settings, came.get(number, (False,) * call.graph.tangents))
        for number, call in enumerate(found.calls)
    ]
    records = [
        _Record(call.graph.planned(one)) for call, one in zip(found.calls, wanted, strict=True)
    ]
    trace = StepTrace(
        [_part_call(call, record) for call, record in zip(found.calls, records, strict=True)],
        found.backward_calls,
        found.regions,
    )
    finest = [one.planned.finest() for one in records]
    whole = together(trace, [(one, one.graph) for one in finest])
    plain = [(one.planned.captured, one.planned.default.graph) for one in records]
    default = _default(together(trace, plain), plain)
    budget = settings.shapes.limit(whole.graph, settings.budget, default.peak)
    assert budget is not None
    choice, _ = choose(whole.graph, budget, settings)
    captured = as_captured(whole.graph)
    planned = PlannedStep(
        captured, choice.on(whole.graph), default, choice.planner, lambda: captured, budget
    )
    numbers = {}
    for number, call in enumerate(found.calls):
        planner = Decided(structure(finest[number].graph), whole.of_call(number, choice))
        numbers[call.graph, call.ordinal] = call.graph.add(
            replace(wanted[number], budget="min", planner=planner, shapes=Shapes())
        )
    return StepPlan(planned, numbers)


def _default(whole: Together, plain: Sequence[tuple[Captured, Graph]]) -> Schedule:
    """Return the schedule of the model by itself, with its own checkpoints."""
    place = {origin: index for index, origin in enumerate(whole.origins) if origin is not None}
    reruns = [
        (place[number, moment], place[number, index])
        for number, (captured, graph) in enumerate(plain)
        for moment, index in checkpointed(captured, graph)
    ]
    return simulate(whole.graph, (), tuple(sorted(reruns)))


def _part_call(call: GraphCall, record: _Record) -> PartCall:
    captured = cast("CapturedCall", record)
    graph = call.graph
    return PartCall(graph.module, "", call.ordinal, captured, call.given, call.made, call.owners)
