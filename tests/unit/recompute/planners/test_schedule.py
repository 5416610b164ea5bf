"""Tests of the schedule against one that looks ahead at every step."""

import pytest
from hypothesis import given, settings

import pgmo
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain, chosen


def naive(graph: Graph, choice: frozenset[int]) -> tuple[list[int], list[int], float]:
    """Return the order, the live bytes at each step and the recomputed cost, by definition."""

    def lost(value: int) -> bool:
        one = graph.values[value]
        return one.producer in choice and not one.pinned and not one.result

    order = [(index, False) for index in range(graph.forward)]
    present: set[int] = set()

    def missing(operation: int) -> set[int]:
        found: set[int] = set()
        for value in graph.operations[operation].reads:
            if lost(value) and value not in present:
                producer = graph.values[value].producer
                found |= {producer} | missing(producer)
        return found

    for index in range(graph.forward, len(graph.operations)):
        for producer in sorted(missing(index)):
            order.append((producer, True))
            present.update(graph.operations[producer].writes)
        order.append((index, False))

    def wanted(value: int, steps: range) -> bool:
        return any(value in graph.operations[order[step][0]].reads for step in steps)

    live = []
    for now, (running, again) in enumerate(order):
        total = graph.operations[running].workspace
        total += sum(graph.values[v].size for v in graph.operations[running].writes if again)
        for value, one in enumerate(graph.values):
            if one.producer == -1:
                continue
            first = order.index((one.producer, False))
            if now < first:
                continue
            if one.result or now == first:
                total += one.size
            elif not lost(value):
                total += one.size if wanted(value, range(now, len(order))) else 0
            elif now < graph.forward:
                total += one.size if wanted(value, range(now, graph.forward)) else 0
            elif (one.producer, True) in order[:now]:
                total += one.size if wanted(value, range(now, len(order))) else 0
        live.append(total)
    cost = sum(graph.operations[index].cost for index, again in order if again)
    return [index for index, _ in order], live, cost


@settings(max_examples=300)
@given(chosen())
def test_schedule_is_what_the_definition_says(case: tuple[Graph, frozenset[int]]) -> None:
    graph, choice = case
    schedule = simulate(graph, choice)
    order, live, cost = naive(graph, choice)
    assert schedule.operations.tolist() == order
    assert schedule.live.tolist() == live
    assert schedule.cost == cost
    assert schedule.peak == max(live)
    assert schedule.live[schedule.peak_step] == schedule.peak


@settings(max_examples=100)
@given(chosen())
def test_blocks_alive_at_the_peak_add_up_to_it(case: tuple[Graph, frozenset[int]]) -> None:
    schedule = simulate(*case)
    alive = schedule.alive(schedule.peak_step)
    assert int(schedule.size[alive].sum()) == schedule.peak
    assert sorted(schedule.size[alive].tolist(), reverse=True) == schedule.size[alive].tolist()


@settings(max_examples=100)
@given(chosen())
def test_what_never_runs_again_changes_nothing(case: tuple[Graph, frozenset[int]]) -> None:
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
        ({2}, r"operation 2 \(sum\) cannot be dropped: the backward pass never needs it again"),
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
