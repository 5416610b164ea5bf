"""Saved bytes against recomputed cost, without regard to when: a minimum cut.

AOTAutograd chooses what to save by a minimum cut between the inputs and the backward pass, with
some operations banned from recomputation and a knapsack over the banned ones
(`min_cut_rematerialization_partition`). Here both are one cut: the cost of an operation has a
price in bytes, and the cut is the least sum of bytes saved and of costs recomputed at that price.
A sweep over prices gives every choice on the lower convex hull of the two.

    source --price * cost--> operation --size--> value --> sink      if the backward pass reads it
    value  ------------ uncuttable ------------> operation           if the operation reads it

What is on the sink's side is needed in the backward pass: an operation there is run again, a
value there whose producer is not is saved.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pgmo import _core
from pgmo.recompute.planners.graph import Graph

PRICES = tuple(float(price) for price in np.geomspace(1e-3, 1e3, 25))
"""Bytes that the whole forward pass may cost, in multiples of the bytes of all its values."""


def min_cut(graph: Graph, price: float) -> tuple[frozenset[int], float]:
    """The choice with the least sum of saved bytes and price times recomputed cost.

    Args:
        graph: the step.
        price: bytes for one unit of cost, from 0.

    Returns:
        The choice and that sum, in bytes, each cost rounded to a whole number of bytes. Values
        that the backward pass cannot do without (pinned ones, results of pinned operations) are
        in it.

    Example:
        >>> from pgmo.recompute.planners.graph import Operation, Value
        >>> graph = Graph(
        ...     operations=(
        ...         Operation("exp", (0,), (1,), cost=2),
        ...         Operation("exp_backward", (1,), (2,)),
        ...     ),
        ...     values=(Value(64, -1), Value(64, 0), Value(64, 1, result=True)),
        ...     forward=1,
        ... )
        >>> min_cut(graph, price=1), min_cut(graph, price=100)
        ((frozenset({0}), 2), (frozenset(), 64))
    """
    candidates = frozenset(graph.candidates())
    source, sink = graph.forward, graph.forward + 1
    node = {
        value: sink + 1 + number
        for number, value in enumerate(
            value
            for operation in graph.operations[: graph.forward]
            for value in operation.writes
            if not graph.values[value].result
        )
    }
    edges: list[tuple[int, int, int]] = []
    for index, operation in enumerate(graph.operations[: graph.forward]):
        again = round(price * operation.cost) if index in candidates else _core.UNCUTTABLE
        edges.append((source, index, again))
        edges += [
            (node[value], index, _core.UNCUTTABLE) for value in operation.reads if value in node
        ]
        for value in operation.writes:
            if value in node:
                one = graph.values[value]
                edges.append((source if one.pinned else index, node[value], one.size))
    wanted = {value for operation in graph.operations[graph.forward :] for value in operation.reads}
    edges += [(node[value], sink, _core.UNCUTTABLE) for value in sorted(wanted) if value in node]
    tail, head, capacity = zip(*edges, strict=True) if edges else ((), (), ())
    least, source_side = _core.min_cut(
        sink + 1 + len(node),
        np.array(tail, np.int32),
        np.array(head, np.int32),
        np.array(capacity, np.int64),
        source,
        sink,
    )
    return frozenset(index for index in candidates if not source_side[index]), least


def sweep(graph: Graph, prices: Sequence[float] = PRICES) -> Iterator[frozenset[int]]:
    """Choices from recomputing everything that may be, to nothing; each once.

    Args:
        graph: the step.
        prices: of its forward pass, in multiples of the bytes of all forward values.
    """
    everything = sum(
        graph.values[value].size
        for operation in graph.operations[: graph.forward]
        for value in operation.writes
    )
    unit = everything / (graph.forward_cost or 1.0)
    seen: set[frozenset[int]] = set()
    for price in (0.0, *prices):
        choice, _ = min_cut(graph, price * unit)
        if choice not in seen:
            seen.add(choice)
            yield choice
