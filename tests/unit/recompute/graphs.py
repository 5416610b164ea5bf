"""Graphs for tests of planners: chains with round numbers, and random ones from Hypothesis."""

import random

from hypothesis import strategies as st

from pgmo.recompute.planners.graph import Graph, Operation, Value


def chain(length: int, *, size: int = 10, costs: tuple[float, ...] = (1.0,)) -> Graph:
    """Return a chain of operations and their backward operations.

    A backward operation reads the output of its operation and a gradient.

    Args:
        length: number of operations of the forward pass.
        size: bytes of each value.
        costs: costs of the operations, repeated.
    """
    cost = [costs[i % len(costs)] for i in range(length)]
    operations = [Operation(f"f{i}", (i,), (i + 1,), cost[i]) for i in range(length)]
    values = [Value(size, -1), *(Value(size, i) for i in range(length))]
    gradient = None
    for i in reversed(range(length)):
        reads = (i + 1,) if gradient is None else (i + 1, gradient)
        gradient = len(values)
        values.append(Value(size, len(operations), result=i == 0))
        operations.append(Operation(f"b{i}", tuple(sorted(reads)), (gradient,), cost[i]))
    return Graph(tuple(operations), tuple(values), length)


def random_graph(seed: int, forward: int, backward: int) -> Graph:
    """Return a random graph with pinned values and operations, results, unused and empty values."""
    dice = random.Random(seed)
    values = [Value(dice.randint(0, 9), -1) for _ in range(dice.randint(0, 2))]
    operations = []
    for index in range(forward + backward):
        known = len(values)
        # Mostly one of the latest values, as in networks, and sometimes any.
        reads = {
            dice.randrange(max(0, known - 4) if dice.random() < 0.7 else 0, known)
            for _ in range(dice.randint(0, 3) if known else 0)
        }
        writes = range(known, known + dice.choice((1, 1, 1, 2, 0)))
        values += [
            Value(
                dice.randint(0, 9),
                index,
                result=dice.random() < 0.15,
                pinned=dice.random() < 0.15,
            )
            for _ in writes
        ]
        operations.append(
            Operation(
                f"op{index}",
                tuple(sorted(reads)),
                tuple(writes),
                cost=float(dice.randint(0, 5)),
                workspace=dice.choice((0, 0, 7)),
                pinned=dice.random() < 0.15,
            )
        )
    return Graph(tuple(operations), tuple(values), forward)


@st.composite
def graphs(draw: st.DrawFn, most: int = 8, backward: int = 8) -> Graph:
    """Draw the lengths and the seed of a random graph."""
    return random_graph(
        draw(st.integers(0, 2**32)), draw(st.integers(1, most)), draw(st.integers(0, backward))
    )


@st.composite
def chosen(draw: st.DrawFn, most: int = 8, backward: int = 8) -> tuple[Graph, frozenset[int]]:
    """Draw a graph and a choice of its candidates."""
    graph = draw(graphs(most, backward))
    dice = random.Random(draw(st.integers(0, 2**32)))
    share = dice.random()
    return graph, frozenset(one for one in graph.candidates() if dice.random() < share)
