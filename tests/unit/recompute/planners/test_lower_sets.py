"""Tests of lower sets and their boundaries against the definitions."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.recompute.planners.lower_sets import Dag, ancestor_sets
from tests.unit.recompute.graphs import chain


@st.composite
def dags(draw: st.DrawFn, most: int = 7) -> Dag:
    """Draw a graph whose nodes read up to three earlier nodes each."""
    count = draw(st.integers(1, most))
    reads = [
        tuple(sorted(draw(st.sets(st.integers(0, node - 1), max_size=3)))) if node else ()
        for node in range(count)
    ]
    numbers = st.lists(st.integers(0, 9), min_size=count, max_size=count)
    size, cost = np.array(draw(numbers), np.int64), np.array(draw(numbers), np.float64)
    return Dag(tuple(reads), size, cost)


def is_lower(dag: Dag, members: set[int]) -> bool:
    return all(set(dag.reads[node]) <= members for node in members)


def lower_sets(dag: Dag) -> list[set[int]]:
    nodes = range(len(dag))
    return [
        set(one)
        for count in range(len(dag) + 1)
        for one in itertools.combinations(nodes, count)
        if is_lower(dag, set(one))
    ]


def all_lower_sets(dag: Dag) -> np.ndarray:
    """Return all lower sets as rows of shape (sets, nodes), in ascending order of members."""
    found = lower_sets(dag)
    return np.array([[node in one for node in range(len(dag))] for one in found], np.bool_)


def readers(dag: Dag, node: int) -> set[int]:
    """Return the nodes that read a node."""
    return {one for one, reads in enumerate(dag.reads) if node in reads}


def as_sets(members: np.ndarray) -> list[set[int]]:
    return [set(np.flatnonzero(row).tolist()) for row in members]


@settings(max_examples=60)
@given(dags())
def test_approximate_family_is_what_each_node_depends_on(dag: Dag) -> None:
    found = as_sets(ancestor_sets(dag))
    assert found[0] == set()
    assert found[-1] == set(range(len(dag)))
    assert all(is_lower(dag, one) for one in found)
    for node in range(len(dag)):
        smallest = min((one for one in lower_sets(dag) if node in one), key=len)
        assert smallest in found
    assert len(found) <= len(dag) + 2


def test_a_long_chain_gets_evenly_spaced_sets() -> None:
    family = ancestor_sets(Dag.of(chain(100)), most=10)
    assert len(family) == 11
    assert not family[0].any()
    assert family[-1].all()


def test_results_have_no_bytes_that_could_be_dropped() -> None:
    graph = chain(3)
    assert Dag.of(graph).size.tolist() == [10, 10, 10]
    assert Dag.of(graph).reads == ((), (0,), (1,))
