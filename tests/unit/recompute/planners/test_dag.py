"""The forward pass as a graph, against the definitions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.recompute.planners.dag import Dag
from tests.unit.recompute.graphs import chain


@st.composite
def dags(draw: st.DrawFn, most: int = 7) -> Dag:
    """Each node reads up to three of those before it."""
    count = draw(st.integers(1, most))
    reads = [
        tuple(sorted(draw(st.sets(st.integers(0, node - 1), max_size=3)))) if node else ()
        for node in range(count)
    ]
    size = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return Dag(tuple(reads), np.array(size, np.int64))


@settings(max_examples=60)
@given(dags())
def test_boundaries_are_what_is_read_outside(dag: Dag) -> None:
    for members, edge in zip(dag.ancestors, dag.boundary(dag.ancestors), strict=True):
        inside = set(np.flatnonzero(members).tolist())
        read = {one for node in set(range(len(dag))) - inside for one in dag.reads[node]}
        assert set(np.flatnonzero(edge).tolist()) == inside & read


@settings(max_examples=60)
@given(dags())
def test_ancestors_are_what_a_node_depends_on(dag: Dag) -> None:
    for node, members in enumerate(dag.ancestors):
        stack, found = [node], {node}
        while stack:
            reads = set(dag.reads[stack.pop()]) - found
            found |= reads
            stack += reads
        assert set(np.flatnonzero(members).tolist()) == found


def test_results_have_no_bytes_that_could_be_forgotten() -> None:
    graph = chain(3)
    assert Dag.of(graph).size.tolist() == [10, 10, 10]
    assert Dag.of(graph).reads == ((), (0,), (1,))
