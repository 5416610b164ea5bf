"""Planning of a step with one or several graphs."""

from collections.abc import Sequence
from dataclasses import replace

from torch import fx

from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.capture.plain_step import checkpointed
from pgmo.recompute.compiled.dry_run.discovery import CallKey, Discovery
from pgmo.recompute.compiled.plan.joined import JoinedGraph, join_graphs
from pgmo.recompute.planners.evaluator import Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.schedule import Schedule, simulate
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime.decide import PlannedStep, Settings, choose

Numbers = dict[CallKey, int]
"""Number of a graph's plan, for each call of the graph in a step."""


def plan(found: Discovery, settings: Settings) -> tuple[PlannedStep, Numbers]:
    """Plan a step within one budget; return its plan, and the number of each call's plan."""
    if not found.is_single:
        return _plan_together(found, settings)
    (call,) = found.calls
    ((_, came),) = found.backward_calls
    chosen, planned = call.graph.add(replace(settings, differentiated=came))
    return planned, {(call.graph, call.ordinal): chosen}


def _plan_together(found: Discovery, settings: Settings) -> tuple[PlannedStep, Numbers]:
    """Plan all graphs as one, and add each graph's part as a plan of the graph."""
    came = dict(found.backward_calls)
    alone = replace(settings, budget=None, joins=False, shapes=Shapes())
    wanted = [
        replace(alone, differentiated=came.get(number, (False,) * call.graph.tangents))
        for number, call in enumerate(found.calls)
    ]
    steps = [call.graph.planned(one) for call, one in zip(found.calls, wanted, strict=True)]
    finest = [one.finest() for one in steps]
    joined = join_graphs(found, [(one, one.graph) for one in finest])
    plain = [(one.captured, one.default.graph) for one in steps]
    default = _default(join_graphs(found, plain, is_plain=True), plain)
    budget = settings.shapes.limit(joined.graph, settings.budget, default.peak)
    if budget is None:
        choice = Evaluator(joined.graph).candidate((), "default")
    else:
        choice, budget = choose(joined.graph, budget, settings, default.peak)
    captured = _as_captured(joined.graph)
    planned = PlannedStep(
        captured,
        choice.on(joined.graph),
        default,
        choice.planner,
        lambda: captured,
        budget,
        len(found.calls),
    )
    numbers = {}
    for number, call in enumerate(found.calls):
        share = joined.of_call(number, choice, finest[number].graph)
        chosen = call.graph.add_choice(share, wanted[number])
        numbers[call.graph, call.ordinal] = chosen
    return planned, numbers


def _default(joined: JoinedGraph, plain: Sequence[tuple[Captured, Graph]]) -> Schedule:
    """Return the schedule of the plain model, with the model's own checkpoints."""
    place = {origin: index for index, origin in enumerate(joined.origins) if origin is not None}
    reruns = [
        (place[number, moment], place[number, index])
        for number, (captured, graph) in enumerate(plain)
        for moment, index in checkpointed(captured, graph)
    ]
    return simulate(joined.graph, (), tuple(sorted(reruns)))


def _as_captured(graph: Graph) -> Captured:
    """Return a joined graph as a captured step without nodes."""
    nothing = fx.GraphModule({}, fx.Graph())
    empty: frozenset[fx.Node] = frozenset()
    return Captured(graph, nothing, 0, (), {}, {}, empty, empty)
