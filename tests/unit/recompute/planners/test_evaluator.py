"""Tests of the native evaluator against the reference, and of periods."""

import pytest
from hypothesis import given, settings

from pgmo.errors import GraphError
from pgmo.recompute.planners.evaluator import Evaluator, _period
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain, chosen


@settings(max_examples=300)
@given(chosen())
def test_small_graphs(case: tuple[Graph, frozenset[int]]) -> None:
    _agrees(*case)


@settings(max_examples=25)
@given(chosen(most=60, backward=60))
def test_medium_graphs(case: tuple[Graph, frozenset[int]]) -> None:
    _agrees(*case)


def test_choices_beyond_the_graph_are_an_error() -> None:
    evaluator = Evaluator(chain(3))
    for wrong in (7, 3, -1):
        with pytest.raises(GraphError, match=f"operation {wrong} cannot be dropped"):
            evaluator.evaluate({wrong})
    assert evaluator.candidate({0, 7}, "mine").recomputed == {0}


def _agrees(graph: Graph, choice: frozenset[int]) -> None:
    evaluator = Evaluator(graph)
    for one in (choice, frozenset[int](), choice):
        schedule = simulate(graph, one)
        peak, overhead = evaluator.evaluate(one)
        assert peak == schedule.peak
        assert overhead * (graph.forward_cost or 1) == pytest.approx(schedule.cost)


def layered(layer, times):
    """Return a step in which `layer`, the costs of its operations, is repeated `times` times."""
    costs = [7.0, *layer * times, 9.0]
    operations = [Operation("op", (i,), (i + 1,), cost) for i, cost in enumerate(costs)]
    values = [Value(8, i - 1) for i in range(len(costs) + 1)]
    return Graph(tuple(operations), tuple(values), len(costs))


def test_the_period_is_that_of_the_layers():
    graph = layered([1.0, 2.0, 3.0, 2.0, 5.0], 300)
    assert _period(graph, range(graph.forward)) == 5


def test_a_step_without_layers_has_none():
    graph = layered([float(one) for one in range(1500)], 1)
    assert _period(graph, range(graph.forward)) == 0


def test_small_steps_are_searched_as_they_are():
    graph = layered([1.0, 2.0, 3.0], 20)
    assert _period(graph, range(graph.forward)) == 0
