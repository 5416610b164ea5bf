"""Tests of values that wait on the host: the native evaluation, schedules and the search."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.errors import BudgetError, GraphError, OptionError
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.offload.transfers import LINKS, Transfers, offloaded_value, parse_link
from pgmo.recompute.planners.planning import plan_choice
from pgmo.recompute.planners.reruns import RerunSearch
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain, graphs
from tests.unit.recompute.reruns import random_reruns, read_reruns


@settings(max_examples=150, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 10**6), rate=st.sampled_from([1e-3, 0.5, 2.0, 1e9]))
def test_the_native_evaluation_is_that_of_the_schedule(graph, seed, rate):
    transfers, dice = Transfers.of(graph, rate), random.Random(seed)
    able = filter(transfers.can_offload, range(graph.forward))
    away = frozenset(one for one in able if dice.random() < 0.5)
    reruns = random_reruns(graph, dice, dice.random() ** 2, away, transfers)
    peak, overhead = RerunSearch(graph, transfers).evaluate(reruns, away)
    schedule = simulate(graph, (), read_reruns(graph, reruns, away), away, transfers)
    assert peak == schedule.peak
    assert overhead * (graph.forward_cost or 1.0) == pytest.approx(schedule.cost, abs=1e-9)


def conveyor(length: int = 6) -> Graph:
    """Return a chain of operations of 1 s and 10 bytes each."""
    return chain(length, size=10, costs=(1.0,))


def test_a_value_is_gone_once_it_was_sent_and_there_from_when_it_is_fetched():
    graph = conveyor()
    transfers = Transfers.of(graph, 10 / 1.5)  # 1.5 s for a value
    assert transfers.until[0] == 3
    schedule = simulate(graph, (), ((9, 0),), frozenset({0}), transfers)
    blocks = [
        (int(start), int(end))
        for value, start, end in zip(schedule.value, schedule.start, schedule.end, strict=True)
        if value == 1
    ]
    # Operation 0 writes the value, which is sent until step 3. Step 9 fetches it for the last one.
    assert blocks == [(0, 3), (9, 13)]
    assert schedule.host_bytes == 10
    assert schedule.waits == 0
    assert schedule.overhead == 0


def test_late_transfers_are_waited_for():
    graph = conveyor()
    transfers = Transfers.of(graph, 10 / 1.5)
    right_before = simulate(graph, (), ((11, 0),), frozenset({0}), transfers)
    assert right_before.waits == pytest.approx(1.5, abs=1e-3)
    one_before = simulate(graph, (), ((10, 0),), frozenset({0}), transfers)
    assert one_before.waits == pytest.approx(0.5, abs=1e-3)
    # Two transfers at a time share the link.
    both = simulate(graph, (), ((10, 0), (10, 1)), frozenset({0, 1}), transfers)
    assert both.waits > 1.9


def test_a_value_is_not_fetched_before_it_was_sent():
    graph = conveyor()
    transfers = Transfers.of(graph, 10 / 1.5)
    with pytest.raises(GraphError, match="cannot be fetched before operation 2"):
        simulate(graph, (), ((2, 0),), frozenset({0}), transfers)
    with pytest.raises(GraphError, match="cannot be offloaded"):
        simulate(graph, (), ((9, 0),), frozenset({0}))


def test_the_value_of_a_pinned_operation_can_be_fetched():
    graph = Graph(
        operations=(
            Operation("random", (0,), (1,), pinned=True),
            Operation("sum", (1,), (2,)),
            Operation("large", (2,), (3,), workspace=200),
            Operation("sum_backward", (1, 3), (4,)),
        ),
        values=(Value(8, -1), Value(100, 0), Value(4, 1), Value(4, 2), Value(100, 3, result=True)),
        forward=3,
    )
    assert offloaded_value(graph, 0) == 1
    assert plan_choice(graph, "min").peak == 308
    choice = plan_choice(graph, "min", rate=1e9)
    assert choice.peak == 208
    assert choice.offloaded == {0}
    with pytest.raises(BudgetError, match="308 bytes or more"):
        plan_choice(graph, 300)


@pytest.mark.parametrize("rate", [1e9, 1.0])
def test_a_budget_below_the_least_peak_is_met_and_the_plan_says_what_it_takes(rate):
    graph = chain(8, size=100, costs=(3.0, 5.0))
    least = plan_choice(graph, "min").peak
    found = plan_choice(graph, "min", rate=rate)
    assert found.peak <= least
    schedule = found.on(graph)
    assert schedule.peak == found.peak
    assert schedule.overhead == pytest.approx(found.overhead)
    if rate == 1e9:
        assert found.peak < least
        assert schedule.offloaded


def test_a_slow_link_is_not_used():
    choice = plan_choice(chain(8, size=100), "min", rate=1e-3)
    assert not choice.offloaded


def test_links_have_names_or_numbers():
    assert [parse_link(one) for one in LINKS] == list(LINKS.values())
    assert parse_link(5) == 5.0
    assert parse_link("10 GB/s") == parse_link("10G") == parse_link("10000 mb/s") == 1e10
    assert parse_link(".5 GB/s") == parse_link(" 500 MB/S ") == 5e8
    assert parse_link("1 PB/s") == 1e15
    assert parse_link("1.5 GiB/s") == parse_link("1.5 gib/S ") == 1.5 * 2**30
    for wrong in ("pcie9", 0, -1, True, None, [], float("inf"), float("nan"), "0 GB/s", "20 Gb/s"):
        with pytest.raises(OptionError, match="give the name of a link"):
            parse_link(wrong)


def two_parts(length: int = 4) -> Graph:
    """Return two chains, of which each is a part; the value between them is pinned."""
    graph = chain(2 * length, size=100, costs=(3.0, 5.0))
    home = [1 + (index // length) for index in range(2 * length)]
    operations = [
        replace(one, home=at) for one, at in zip(graph.operations, home + home[::-1], strict=True)
    ]
    values = list(graph.values)
    values[length] = replace(values[length], pinned=True)
    return Graph(tuple(operations), tuple(values), graph.forward)


@pytest.mark.parametrize("rate", [None, 1e9, 1e-2])
def test_reruns_and_fetches_stay_in_their_graph(rate):
    graph = two_parts()
    least = plan_choice(chain(8, size=100, costs=(3.0, 5.0)), "min", rate=rate)
    found = plan_choice(graph, "min", rate=rate)
    schedule = found.on(graph)  # it refuses reruns in another part
    assert schedule.peak == found.peak >= least.peak
    assert found.peak < simulate(graph).peak
    assert schedule.reruns
    assert bool(schedule.offloaded) == (rate == 1e9)
    for budget in (found.peak, (found.peak + simulate(graph).peak) // 2):
        assert plan_choice(graph, budget, rate=rate).on(graph).peak <= budget


def test_a_rerun_or_a_transfer_in_another_part_is_refused():
    graph = two_parts()
    with pytest.raises(GraphError, match="belongs to another graph"):
        simulate(graph, (), ((8, 0),))
    # A transfer ends by the end of its part, however slow it is.
    assert Transfers.of(graph, 1.0).until[:4] == (4, 4, 4, 4)
