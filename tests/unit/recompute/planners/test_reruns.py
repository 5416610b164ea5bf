"""Tests of reruns: the native evaluation against the schedule, and the search."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.errors import GraphError
from pgmo.recompute.planners.evaluator import Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.planning import plan_choice
from pgmo.recompute.planners.reruns import RerunSearch
from pgmo.recompute.planners.schedule import Reruns, is_made_again, simulate
from tests.unit.recompute.graphs import chain, graphs, random_graph
from tests.unit.recompute.reruns import random_reruns, read_reruns


def some_reruns(graph: Graph, seed: int) -> Reruns:
    dice = random.Random(seed)
    return random_reruns(graph, dice, dice.random() ** 2)


def naive_live(graph: Graph, reruns: Reruns) -> list[int]:
    """Return the live bytes at each step, by definition."""
    order = []
    for moment in range(len(graph.operations)):
        order += [(index, True) for at, index in sorted(reruns) if at == moment]
        order.append((moment, False))

    def writes(step: int, value: int) -> bool:
        index, again = order[step]
        return graph.values[value].producer == index and (not again or is_made_again(graph, value))

    live = []
    for now, (running, _) in enumerate(order):
        operation = graph.operations[running]
        total = operation.workspace + sum(graph.values[value].size for value in operation.writes)
        for value, one in enumerate(graph.values):
            first = 0 if one.producer < 0 else order.index((one.producer, False))
            if one.producer < 0 or now <= first or writes(now, value):
                continue
            stays = one.result
            for step in range(now, len(order)):
                stays |= value in graph.operations[order[step][0]].reads
                if writes(step, value):
                    break
            total += one.size if stays else 0
        live.append(total)
    return live


@settings(max_examples=150)
@given(graphs(), st.integers(0, 2**32))
def test_schedule_of_reruns_is_what_the_definition_says(graph: Graph, seed: int) -> None:
    reruns = some_reruns(graph, seed)
    schedule = simulate(graph, reruns=reruns)
    assert schedule.reruns == reruns
    assert schedule.live.tolist() == naive_live(graph, reruns)


@settings(max_examples=150)
@given(graphs(), st.integers(0, 2**32))
def test_evaluation_is_the_schedule_without_unread_values(graph: Graph, seed: int) -> None:
    reruns = some_reruns(graph, seed)
    schedule = simulate(graph, reruns=read_reruns(graph, reruns))
    peak, overhead = RerunSearch(graph).evaluate(reruns)
    assert peak == schedule.peak
    assert overhead * (graph.forward_cost or 1) == pytest.approx(schedule.cost)


@settings(max_examples=30)
@given(graphs(most=12, backward=12), st.integers(0, 3))
def test_the_search_is_never_worse_and_reports_what_its_schedule_has(
    graph: Graph, seed: int
) -> None:
    search = RerunSearch(graph)
    start = Evaluator(graph).candidate((), "default")
    least = search.improve(start, None, evaluations=2000, time_limit=60, seed=seed, most=0.5)
    assert least.peak <= start.peak
    assert least.overhead <= 0.5
    schedule = least.on(graph)
    assert (schedule.peak, pytest.approx(schedule.overhead)) == (least.peak, least.overhead)
    budget = (least.peak + start.peak) // 2
    cheaper = search.improve(least, budget, evaluations=2000, time_limit=60, seed=seed)
    assert cheaper.peak <= budget
    assert cheaper.overhead <= least.overhead + 1e-12
    assert search.improve(least, budget, evaluations=2000, time_limit=60, seed=seed) == cheaper


@settings(max_examples=60)
@given(graphs(most=9, backward=9), st.integers(0, 3))
def test_an_unlimited_beam_never_costs_more_than_the_search(graph: Graph, seed: int) -> None:
    search = RerunSearch(graph)
    start = Evaluator(graph).candidate((), "default")
    least = search.improve(start, None, evaluations=2000, time_limit=60, seed=seed)
    for budget in (least.peak, (least.peak + start.peak) // 2):
        other = search.improve(least, budget, evaluations=2000, time_limit=60, seed=seed)
        found = search.beam(budget, work=10**8, time_limit=60)
        if budget < 1:
            assert found is None
            continue
        assert found is not None
        assert found.peak <= budget
        assert found.overhead <= other.overhead + 1e-9
        schedule = found.on(graph)
        assert (schedule.peak, pytest.approx(schedule.overhead)) == (found.peak, found.overhead)


def test_a_beam_finds_nothing_below_what_one_operation_takes_and_leaves_large_steps_alone() -> None:
    search = RerunSearch(chain(24))
    assert search.beam(1, work=10**6, time_limit=60) is None
    assert search.beam(10**9, work=100, time_limit=60) is None
    assert search.beam(10**9, work=10**6, time_limit=60) is not None


def test_a_chain_fits_where_each_operation_once_more_is_not_enough() -> None:
    graph = chain(24)
    search = Evaluator(graph)
    once = search.search(
        search.candidate((), "default"), None, evaluations=50_000, time_limit=60, seed=0
    )
    budget = int(0.8 * once.peak)
    choice = plan_choice(graph, budget, evaluations=50_000)
    assert choice.peak <= budget
    assert choice.reruns is not None
    assert len(choice.reruns) > len(choice.recomputed)
    assert plan_choice(graph, "min", evaluations=20_000).overhead <= 1


@pytest.mark.parametrize(
    ("reruns", "message"),
    [
        (((5, 5),), "operation 5 cannot run again before operation 5"),
        (((8, 0),), "operation 0 cannot run again before operation 8"),
        (((3, 3),), "operation 3 cannot run again before operation 3"),
    ],
)
def test_reruns_beyond_the_step_are_an_error(reruns: Reruns, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        simulate(chain(4), reruns=reruns)
    with pytest.raises(GraphError, match=message):
        RerunSearch(chain(4)).evaluate(reruns)


def test_pinned_operations_do_not_run_again() -> None:
    graph = random_graph(1, 12, 12)
    index = next(i for i, one in enumerate(graph.operations[:12]) if one.pinned)
    with pytest.raises(GraphError, match="it is pinned"):
        simulate(graph, reruns=((20, index),))
