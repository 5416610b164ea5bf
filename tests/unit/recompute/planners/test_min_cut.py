"""Tests of minimum cuts against all choices, and of the flow against all cuts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo import _core
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.min_cut import Network, sweep
from pgmo.recompute.planners.schedule import is_dropped, simulate
from tests.unit.recompute.graphs import chain, graphs


def saved(graph: Graph, choice: frozenset[int]) -> int:
    """Return the bytes that are kept for the backward pass and its recomputations."""
    schedule = simulate(graph, choice)
    read = {
        value
        for index in schedule.operations[graph.forward :].tolist()
        for value in graph.operations[index].reads
    }
    return sum(
        one.size
        for value, one in enumerate(graph.values)
        if value in read
        and 0 <= one.producer < graph.forward
        and not one.result
        and not is_dropped(graph, choice, value)
    )


def subsets(items: list[int]) -> list[frozenset[int]]:
    return [
        frozenset(one)
        for count in range(len(items) + 1)
        for one in itertools.combinations(items, count)
    ]


@settings(max_examples=80)
@given(graphs(most=7), st.integers(0, 8))
def test_cut_is_the_least_of_all_choices(graph: Graph, price: int) -> None:
    choice = Network(graph).cut(price)

    def value(one: frozenset[int]) -> float:
        return saved(graph, one) + price * simulate(graph, one).cost

    assert choice <= set(graph.candidates())
    assert value(choice) == min(value(one) for one in subsets(list(graph.candidates())))


@settings(max_examples=40)
@given(graphs(most=12, backward=12))
def test_sweep_trades_saved_bytes_for_cost(graph: Graph) -> None:
    choices = list(sweep(graph))
    assert len(set(choices)) == len(choices)
    costs = [simulate(graph, one).cost for one in choices]
    bytes_saved = [saved(graph, one) for one in choices]
    assert costs == sorted(costs, reverse=True)
    assert bytes_saved == sorted(bytes_saved)


def test_chain_saves_nothing_or_everything() -> None:
    graph = chain(10)
    assert Network(graph).cut(0) == set(graph.candidates())
    assert Network(graph).cut(1e6) == frozenset()


@settings(max_examples=80)
@given(
    st.integers(2, 6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=14),
)
def test_flow_is_the_least_cut(nodes: int, edges: list[tuple[int, int, int]]) -> None:
    edges = [(tail % nodes, head % nodes, capacity) for tail, head, capacity in edges]

    def across(side: set[int]) -> int:
        return sum(c for tail, head, c in edges if tail in side and head not in side)

    columns = (np.array([edge[i] for edge in edges], np.int32) for i in (0, 1))
    capacity = np.array([edge[2] for edge in edges], np.int64)
    least, side = _core.min_cut(nodes, *columns, capacity, 0, nodes - 1)
    chosen = set(np.flatnonzero(side).tolist())
    sides = [set(one) | {0} for one in subsets(list(range(1, nodes - 1)))]
    assert least == min(across(one) for one in sides) == across(chosen)
    assert 0 in chosen
    assert nodes - 1 not in chosen


def test_edges_out_of_range_are_an_error() -> None:
    one = np.array([0], np.int32)
    with pytest.raises(ValueError, match="out of range"):
        _core.min_cut(2, one, one + 5, np.array([1]), 0, 1)
    with pytest.raises(ValueError, match="two nodes"):
        _core.min_cut(2, one, one, np.array([1]), 1, 1)
