"""Tests of the schedule against one that looks ahead at every step."""

import pytest
from hypothesis import given, settings

import pgmo
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.schedule import Reruns, simulate
from tests.unit.recompute.graphs import chain, chosen
from tests.unit.recompute.planners.test_reruns import naive_live


def reruns_of(graph: Graph, choice: frozenset[int]) -> Reruns:
    """Return the reruns of a choice, by definition."""
    present: set[int] = set()

    def missing(operation: int) -> set[int]:
        found: set[int] = set()
        for value in graph.operations[operation].reads:
            one = graph.values[value]
            lost = one.producer in choice and not one.pinned and not one.result
            if lost and value not in present:
                found |= {one.producer} | missing(one.producer)
        return found

    reruns = []
    for moment in range(graph.forward, len(graph.operations)):
        for producer in sorted(missing(moment)):
            reruns.append((moment, producer))
            present.update(graph.operations[producer].writes)
    return tuple(reruns)


@settings(max_examples=300)
@given(chosen())
def test_schedule_is_what_the_definition_says(case: tuple[Graph, frozenset[int]]) -> None:
    graph, choice = case
    schedule = simulate(graph, choice)
    reruns = reruns_of(graph, choice)
    assert schedule.reruns == reruns
    assert schedule.live.tolist() == naive_live(graph, reruns)
    assert schedule.cost == sum(graph.operations[index].cost for _, index in reruns)
    assert schedule.live[schedule.peak_step] == schedule.peak == schedule.live.max()


@settings(max_examples=100)
@given(chosen())
def test_blocks_alive_at_the_peak_add_up_to_it(case: tuple[Graph, frozenset[int]]) -> None:
    schedule = simulate(*case)
    alive = schedule.alive(schedule.peak_step)
    assert int(schedule.size[alive].sum()) == schedule.peak
    assert sorted(schedule.size[alive].tolist(), reverse=True) == schedule.size[alive].tolist()


@settings(max_examples=100)
@given(chosen())
def test_dropped_operations_that_never_run_again_change_nothing(
    case: tuple[Graph, frozenset[int]],
) -> None:
    graph, choice = case
    schedule = simulate(graph, choice)
    assert schedule.recomputed <= choice
    assert simulate(graph, schedule.recomputed).live.tolist() == schedule.live.tolist()


def test_chain_by_hand() -> None:
    graph = chain(4)
    plain = simulate(graph)
    # Outputs are live until their backward operation, and gradients until the next one.
    assert plain.live.tolist() == [10, 20, 30, 40, 50, 50, 40, 30]
    assert (plain.overhead, plain.recomputed) == (0, frozenset())
    half = simulate(graph, {0, 2})
    assert half.operations.tolist() == [0, 1, 2, 3, 4, 2, 5, 6, 0, 7]
    assert half.live.tolist() == [10, 20, 20, 30, 30, 30, 40, 30, 20, 30]
    assert half.overhead == 0.5
    assert half.peak_operation == 5


def test_no_backward_pass_and_no_operations() -> None:
    graph = Graph((Operation("f", (0,), (1,)),), (Value(5, -1), Value(7, 0)), 1)
    assert simulate(graph).peak == 7
    assert simulate(Graph((), (), 0)).peak == 0


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({9}, "operation 9 cannot be dropped: the forward pass has the operations 0 to 2"),
        ({1}, r"operation 1 \(dropout\) cannot be dropped: it is pinned"),
        ({2}, r"operation 2 \(sum\) cannot be dropped: it writes no value that is needed again"),
    ],
)
def test_choice_beyond_the_candidates_is_an_error(choice: set[int], message: str) -> None:
    operations = (
        Operation("exp", (0,), (1,)),
        Operation("dropout", (1,), (2,), pinned=True),
        Operation("sum", (2,), (3,)),
        Operation("backward", (1, 2), (4,)),
    )
    values = (Value(8, -1), *(Value(8, i) for i in range(3)), Value(8, 3, result=True))
    with pytest.raises(pgmo.errors.GraphError, match=message):
        simulate(Graph(operations, values, 3), choice)
