"""Choices with the smallest sum of saved bytes and recomputed cost, by minimum cuts.

    source --price * cost--> operation --size--> value --> sink      if the backward pass reads it
    value  ------------ uncuttable ------------> operation           if the operation reads it

An operation on the sink's side runs again. A value on the sink's side is saved unless its producer
runs again. The price converts costs to bytes. A sweep over prices gives choices on the lower convex
hull of bytes and cost. AOTAutograd's `min_cut_rematerialization_partition` minimizes bytes
alone, and bans expensive operations from recomputation.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pgmo import _core
from pgmo.recompute.planners.graph import Graph

PRICES = tuple(float(price) for price in np.geomspace(1e-3, 1e3, 25))
"""Prices of the whole forward pass, as multiples of the bytes of all its values."""


class Network:
    """Network of a step, in which only the capacities of costs depend on the price."""

    def __init__(self, graph: Graph) -> None:
        forward = graph.operations[: graph.forward]
        self._candidates = frozenset(graph.candidates())
        self._source, self._sink = graph.forward, graph.forward + 1
        values = [v for one in forward for v in one.writes if not graph.values[v].result]
        node = {value: self._sink + 1 + number for number, value in enumerate(values)}
        self._nodes = self._sink + 1 + len(node)
        edges: list[tuple[int, int, int]] = []
        self._priced: list[int] = []  # Edges whose capacity is the price of a cost.
        costs: list[float] = []
        for index, operation in enumerate(forward):
            if index in self._candidates:
                self._priced.append(len(edges))
                costs.append(operation.cost)
            edges.append((self._source, index, _core.UNCUTTABLE))
            edges += [
                (node[value], index, _core.UNCUTTABLE) for value in operation.reads if value in node
            ]
            for value in operation.writes:
                if value in node:
                    one = graph.values[value]
                    begin = self._source if one.pinned else index
                    edges.append((begin, node[value], one.size))
        later = graph.operations[graph.forward :]
        wanted = {value for operation in later for value in operation.reads}
        edges += [
            (node[value], self._sink, _core.UNCUTTABLE) for value in sorted(wanted) if value in node
        ]
        tail, head, capacity = zip(*edges, strict=True) if edges else ((), (), ())
        self._tail, self._head = np.array(tail, np.int32), np.array(head, np.int32)
        self._capacity = np.array(capacity, np.int64)
        self._costs = np.array(costs, np.float64)

    def cut(self, price: float) -> frozenset[int]:
        """Return the choice with the smallest sum of saved bytes and price times recomputed cost.

        `price` is in bytes per unit of cost. Each priced cost is rounded to a whole number.
        """
        self._capacity[self._priced] = np.rint(price * self._costs).astype(np.int64)
        _, source_side = _core.min_cut(
            self._nodes, self._tail, self._head, self._capacity, self._source, self._sink
        )
        return frozenset(one for one in self._candidates if not source_side[one])


def sweep(graph: Graph, prices: Sequence[float] = PRICES) -> Iterator[frozenset[int]]:
    """Yield distinct choices, from few saved bytes to low cost; `prices` are as in `PRICES`."""
    everything = sum(
        graph.values[value].size
        for operation in graph.operations[: graph.forward]
        for value in operation.writes
    )
    unit = everything / (graph.forward_cost or 1.0)
    seen: set[frozenset[int]] = set()
    network = Network(graph)
    for price in (0.0, *prices):
        choice = network.cut(price * unit)
        if choice not in seen:
            seen.add(choice)
            yield choice
