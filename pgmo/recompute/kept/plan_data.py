"""A planned step as data: the graph in columns, and what was decided."""

from typing import Any

from torch import fx

from pgmo.recompute.capture.divide import divided
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.runtime.decide import PlannedStep


def plan_data(planned: PlannedStep) -> dict[str, Any]:
    """For JSON."""
    finest = planned.finest()
    return {
        "graph": graph_data(planned.captured.graph),
        "finest": None if finest is planned.captured else graph_data(finest.graph),
        "default": planned.default.peak,
        "default_graph": None
        if planned.default.graph is planned.captured.graph
        else graph_data(planned.default.graph),
        "reruns": planned.schedule.reruns,
        "offloaded": sorted(planned.schedule.offloaded),
        "rate": None if planned.schedule.transfers is None else planned.schedule.transfers.rate,
        "forgotten": sorted(planned.captured.forgotten),
        "planner": planned.planner,
        "budget": planned.budget,
        "divided": divided(planned.captured) if planned.in_two is None else planned.in_two,
        "parts": planned.parts,
    }


def planned_step(data: Any) -> PlannedStep:
    """From `plan_data`: it has no nodes, as nothing was captured."""
    graph = read_graph(data["graph"])
    captured = _captured(graph, frozenset(data["forgotten"]))
    default = graph if data["default_graph"] is None else read_graph(data["default_graph"])
    transfers = None if data["rate"] is None else Transfers.of(graph, data["rate"])
    reruns = tuple((moment, index) for moment, index in data["reruns"])

    def finest() -> Captured:
        if data["finest"] is None:
            return captured
        return _captured(read_graph(data["finest"]), captured.forgotten)

    return PlannedStep(
        captured,
        simulate(graph, (), reruns, frozenset(data["offloaded"]), transfers),
        simulate(default),
        data["planner"],
        finest,
        data["budget"],
        data["divided"],
        tuple(data["parts"]),
    )


def _captured(graph: Graph, forgotten: frozenset[int]) -> Captured:
    nothing = fx.GraphModule({}, fx.Graph())
    empty: frozenset[fx.Node] = frozenset()
    return Captured(graph, nothing, 0, (), {}, {}, empty, empty, forgotten)


def graph_data(graph: Graph) -> dict[str, Any]:
    """A graph in columns, for JSON."""
    names: dict[str, int] = {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names))

    operations = [
        [
            *(number(one.name), list(one.reads), list(one.writes), one.cost, one.workspace),
            *(one.pinned, number(one.module)),
            *([one.home] if one.home else []),
        ]
        for one in graph.operations
    ]
    values = [[one.size, one.producer, one.result, one.pinned] for one in graph.values]
    return {
        "names": list(names),
        "operations": operations,
        "values": values,
        "forward": graph.forward,
    }


def read_graph(data: Any) -> Graph:
    """From `graph_data`."""
    names = data["names"]
    return Graph(
        tuple(
            Operation(
                names[name],
                tuple(reads),
                tuple(writes),
                cost,
                workspace,
                pinned,
                names[module],
                *home,
            )
            for name, reads, writes, cost, workspace, pinned, module, *home in data["operations"]
        ),
        tuple(Value(*one) for one in data["values"]),
        data["forward"],
    )
