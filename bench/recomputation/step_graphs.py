"""Graphs of planned steps in columns, for the JSON results of benchmarks."""

from typing import Any

from pgmo.recompute.planners.graph import Graph, Operation, Value


def graph_data(graph: Graph) -> dict[str, Any]:
    """Return a graph in columns, for JSON."""
    names: dict[str, int] = {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names))

    operations = [
        [
            *(number(one.name), list(one.reads), list(one.writes), one.cost, one.workspace),
            *(one.pinned, number(one.module)),
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
    """Return the graph of `graph_data`."""
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
            )
            for name, reads, writes, cost, workspace, pinned, module in data["operations"]
        ),
        tuple(Value(*one) for one in data["values"]),
        data["forward"],
    )
