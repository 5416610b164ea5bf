"""Tests of graphs that are refused, and of operations that may be dropped."""

from math import inf, nan

import pytest
from hypothesis import given

import pgmo
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain, graphs

VALUES = (Value(8, -1), Value(8, 0), Value(8, 1))


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([Operation("f", (1,), (1,))], r"0 \(f\) reads value 1, which no earlier operation"),
        ([Operation("f", (-1,), (1,))], "reads value -1, which no earlier operation"),
        ([Operation("f", (0,), (2,))], "value 2, which has another producer or does not exist"),
        ([Operation("f", (0,), (0,))], "writes value 0, which has another producer"),
        ([Operation("f", (0,), ())], "value 1: operation 0 does not write it"),
        ([Operation("f", (0, 0), (1,))], r"reads the values \(0, 0\); give them ascending"),
        ([Operation("f", (0,), (1, 1))], r"writes the values \(1, 1\); give each once"),
        ([Operation("f", (0,), (1,), cost=-1)], "has the cost -1 and a workspace of 0 bytes"),
        ([Operation("f", (0,), (1,), cost=nan)], "has the cost nan"),
        ([Operation("f", (0,), (1,), cost=inf)], "has the cost inf"),
        ([Operation("f", (0,), (1,), workspace=-8)], "a workspace of -8 bytes"),
        (
            [Operation("f", (0,), (1,)), Operation("g", (1, 0), (2,))],
            r"operation 1 \(g\) reads the values \(1, 0\)",
        ),
        (
            [Operation("f", (0,), (1,), cost=1e308), Operation("g", (0,), (2,), cost=1e308)],
            "too large to be added up",
        ),
    ],
)
def test_graphs_that_contradict_themselves(operations: list[Operation], message: str) -> None:
    values = VALUES[: 2 + (len(operations) > 1)]
    with pytest.raises(pgmo.errors.GraphError, match=message):
        Graph(tuple(operations), values, len(operations))


def test_negative_sizes_and_wrong_counts_are_refused() -> None:
    with pytest.raises(pgmo.errors.GraphError, match="value 0 has -1 bytes"):
        Graph((), (Value(-1, -1),), 0)
    with pytest.raises(pgmo.errors.GraphError, match="1 forward operations: there are 0 in all"):
        Graph((), (), 1)


def test_candidates_are_what_the_backward_pass_reads() -> None:
    assert list(chain(4).candidates()) == [0, 1, 2, 3]
    # Only the forward pass reads "exp", but its reader "cos" may run again, unlike that of "sum".
    operations = (
        Operation("exp", (0,), (1,)),
        Operation("cos", (1,), (2,)),
        Operation("sum", (2,), (3,)),
        Operation("cos_backward", (2,), (4,)),
    )
    values = (Value(8, -1), *(Value(8, i) for i in range(4)))
    assert list(Graph(operations, values, 3).candidates()) == [0, 1]


@given(graphs())
def test_only_candidates_run_twice(graph: Graph) -> None:
    candidates = frozenset(graph.candidates())
    assert simulate(graph, candidates).recomputed <= candidates
    assert not any(graph.operations[index].pinned for index in candidates)


def test_a_graph_names_its_sizes():
    assert repr(chain(3)) == "Graph(3 forward and 3 backward operations, 7 values)"
