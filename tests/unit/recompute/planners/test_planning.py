"""Tests of planning for a budget, and of its distance from the optimum."""

import itertools
import re
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmo
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.planning import (
    curve,
    plan_choice,
    plan_choices,
    propose,
    rank,
)
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain, graphs, random_graph


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


def every_outcome(graph: Graph) -> list[tuple[int, float]]:
    """Return the peak and the overhead of every choice."""
    candidates = list(graph.candidates())
    evaluator = Evaluator(graph)
    return [
        evaluator.evaluate(one)
        for count in range(len(candidates) + 1)
        for one in itertools.combinations(candidates, count)
    ]


@settings(max_examples=30)
@given(graphs(most=12, backward=12), st.floats(0, 1), st.integers(0, 3))
def test_the_choice_fits_and_reports_what_its_schedule_has(
    graph: Graph, share: float, seed: int
) -> None:
    proposed = propose(graph)
    least = plan_choice(graph, "min", evaluations=500, seed=seed, candidates=proposed)
    assert least.peak <= min(one.peak for one in proposed)
    budget = int(least.peak + share * (proposed[0].peak - least.peak))
    # `least` is a candidate, because a search of another length may miss it.
    known = [*proposed, least]
    choice = plan_choice(graph, budget, evaluations=2000, seed=seed, candidates=known)
    schedule = choice.on(graph)
    assert schedule.recomputed == choice.recomputed
    assert schedule.peak == choice.peak <= budget
    assert schedule.overhead == pytest.approx(choice.overhead)
    start = min(proposed, key=lambda one: rank(one, budget))
    if start.peak <= budget:
        assert choice.overhead <= start.overhead


def test_small_graphs_are_solved_to_the_optimum_of_the_smaller_space() -> None:
    cells = optimal = 0
    for seed in range(25):
        graph = random_graph(seed, forward=14, backward=14)
        if not 3 <= len(list(graph.candidates())) <= 12:
            continue
        outcomes = every_outcome(graph)
        least = min(peak for peak, _ in outcomes)
        assert plan_choice(graph, "min", evaluations=4000).peak <= least
        for share in (0.25, 0.5, 0.75):
            budget = int(least + share * (simulate(graph).peak - least))
            best = min(overhead for peak, overhead in outcomes if peak <= budget)
            found = plan_choice(graph, budget, evaluations=4000).overhead
            cells += 1
            optimal += found <= best + 1e-12
    assert cells >= 30
    assert optimal >= 0.95 * cells


def test_same_seed_same_choice() -> None:
    graph = random_graph(3, forward=80, backward=80)
    least, most = plan_choice(graph, "min", evaluations=3000).peak, simulate(graph).peak
    budget = (least + most) // 2
    first = plan_choice(graph, budget, evaluations=3000, seed=5)
    again = plan_choice(graph, budget, evaluations=3000, seed=5)
    assert first == again


def test_nothing_is_dropped_when_everything_fits() -> None:
    graph = chain(30)
    peak = simulate(graph).peak
    choice = plan_choice(graph, peak)
    assert (choice.recomputed, choice.peak, choice.overhead) == (frozenset(), peak, 0)
    assert choice.planner == "default"


def test_search_improves_on_what_was_proposed() -> None:
    graph = chain(100)
    budget = simulate(graph).peak // 2
    proposed = min(propose(graph), key=lambda one: rank(one, budget))
    choice = plan_choice(graph, budget, evaluations=20_000)
    assert choice.planner == "search"
    assert choice.overhead < proposed.overhead


@settings(max_examples=20)
@given(graphs(most=12, backward=12), st.integers(0, 3))
def test_larger_budgets_are_never_dearer(graph: Graph, seed: int) -> None:
    (least,) = plan_choices(graph, ["min"], evaluations=100, seed=seed)
    low, high = least.peak, simulate(graph).peak
    budgets = [high, *(low + (high - low) * i // 5 for i in (3, 1, 2, 5, 4, 3))]
    # "min" is searched again, because a search of so few choices may miss the least peak.
    _, *choices = plan_choices(graph, ["min", *budgets], evaluations=100, seed=seed)
    assert len(choices) == len(budgets)
    for budget, choice in zip(budgets, choices, strict=True):
        assert choice.on(graph).peak == choice.peak <= budget
    ascending = [choice for _, choice in sorted(zip(budgets, choices, strict=True), key=_first)]
    for one, larger in itertools.pairwise(ascending):
        assert larger.overhead <= one.overhead
        assert larger.peak >= one.peak


def test_choices_for_several_budgets() -> None:
    graph = chain(40)
    least, half, most = plan_choices(graph, ["min", 200, 410], evaluations=3000)
    assert least.peak == plan_choice(graph, "min", evaluations=3000).peak
    assert least.peak < half.peak <= 200
    assert (most.peak, most.overhead) == (410, 0)
    with pytest.raises(pgmo.BudgetError, match="the smallest peak found is"):
        plan_choices(graph, [400, 10], evaluations=100)
    with pytest.raises(pgmo.BudgetError, match="the smallest peak found is"):
        plan_choices(graph, ["min", 10], evaluations=100)
    assert plan_choices(graph, []) == ()


def test_several_budgets_are_met_as_well_as_one() -> None:
    graph = random_graph(0, forward=60, backward=60)
    known = [one for one in propose(graph) if one.planner in ("default", "chen")]
    low = plan_choice(graph, "min", evaluations=300, candidates=known).peak
    high = simulate(graph).peak
    budgets = [low + (high - low) * i // 16 for i in range(1, 16)]
    alone = [
        plan_choice(graph, budget, evaluations=300, candidates=known).overhead for budget in budgets
    ]
    choices = plan_choices(graph, budgets, evaluations=300, candidates=known)
    together = [choice.overhead for choice in choices]
    assert alone != sorted(alone, reverse=True)  # so short a search may miss better choices
    assert together == sorted(together, reverse=True)
    assert all(one <= other for one, other in zip(together, alone, strict=True))


def test_candidates_are_evaluated_again() -> None:
    graph = chain(20)
    lie = Choice(frozenset({3, 900}), peak=1, overhead=0.0, planner="lie")
    choice = plan_choice(graph, 150, evaluations=2000, candidates=[lie])
    assert choice.on(graph).peak == choice.peak <= 150
    assert plan_choice(graph, 150, evaluations=2000, candidates=[]).peak <= 150


def test_a_search_with_a_time_limit_still_fits_the_budget() -> None:
    graph = chain(60)
    budget = simulate(graph).peak // 2
    for wanted in ("min", budget):
        choice = plan_choice(graph, wanted, evaluations=10**9, time_limit=1e-6)  # type: ignore[arg-type]
        assert choice.on(graph).peak == choice.peak <= budget


def test_interrupt_ends_the_search() -> None:
    # Python's own handler, even if the tests run in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(
        0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    )
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            plan_choice(chain(100), "min", evaluations=10**9, time_limit=30)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "graph",
    [
        Graph((), (), 0),
        Graph((), (Value(8, -1),), 0),
        Graph((Operation("f", (0,), (1,)),), (Value(8, -1), Value(8, 0)), 0),
        Graph((Operation("f", (0,), (1,)),), (Value(8, -1), Value(8, 0)), 1),
        chain(5, size=0),
        chain(5, costs=(0.0,)),
    ],
    ids=["nothing", "given only", "no forward", "no backward", "no bytes", "no cost"],
)
def test_graphs_with_nothing_to_gain(graph: Graph) -> None:
    peak = simulate(graph).peak
    assert plan_choice(graph, "min", evaluations=100).overhead == 0
    assert plan_choice(graph, peak, evaluations=100).overhead == 0
    assert curve(graph, points=3, evaluations=100)[-1].overhead == 0


def test_curve_falls() -> None:
    graph = chain(60)
    points = curve(graph, points=6, evaluations=3000)
    assert len(points) >= 6
    assert points[0].peak == plan_choice(graph, "min", evaluations=3000).peak
    assert (points[-1].peak, points[-1].overhead) == (simulate(graph).peak, 0)
    peaks, overheads = [one.peak for one in points], [one.overhead for one in points]
    assert peaks == sorted(set(peaks))
    assert overheads == sorted(set(overheads), reverse=True)


def test_each_planner_proposes() -> None:
    graph = chain(64, costs=(9, 1, 1))
    plain = simulate(graph).peak
    proposed = propose(graph)
    assert proposed[0].planner == "default"
    for planner in ("min-cut", "chen", "kusumoto"):
        peaks = [one.peak for one in proposed if one.planner.startswith(planner)]
        assert min(peaks) < 0.6 * plain


@settings(max_examples=30)
@given(graphs(most=3, backward=2))
def test_tiny_graphs_can_be_planned(graph: Graph) -> None:
    assert plan_choice(graph, "min", evaluations=50).peak <= simulate(graph).peak
    assert curve(graph, points=2, evaluations=50)[-1].overhead == 0


@pytest.mark.parametrize("kind", [int, np.int64, np.uint32])
def test_any_whole_number_is_a_budget(kind: type) -> None:
    assert plan_choice(chain(10), kind(80), evaluations=500).peak <= 80


def test_budget_beyond_all_bytes_is_met() -> None:
    assert plan_choice(chain(10), 2**80).overhead == 0


def test_budget_that_cannot_be_met_says_the_least_peak() -> None:
    graph = chain(40, size=1024)
    with pytest.raises(pgmo.BudgetError) as raised:
        plan_choice(graph, 2048, evaluations=50_000)
    message = str(raised.value)
    assert "keeps the step within 2.00 KiB" in message
    assert "the original model's peak is 41.0 KiB" in message
    (least,) = map(int, re.findall(r"Allow (\d+) bytes or more", message))
    assert least < plan_choice(graph, "min", evaluations=50_000).peak
    assert plan_choice(graph, least, evaluations=50_000).peak == least


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1}, 'the budget is -1; give a number of bytes, or "min"'),
        ({"budget": "max"}, "the budget is 'max'"),
        ({"budget": 80.0}, "the budget is 80.0"),
        ({"budget": True}, "the budget is True"),
        ({"budget": None}, "the budget is None"),
        ({"budget": 1, "seed": -1}, "the seed is -1; give a number from 0"),
        ({"budget": 1, "seed": 2**64}, "the seed is 18446744073709551616"),
        ({"budget": 1, "evaluations": 0}, "evaluations is 0; give 1 or more"),
        ({"budget": 1, "time_limit": 0}, "the time limit is 0 seconds; give more than 0"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, object], message: str) -> None:
    with pytest.raises(pgmo.errors.OptionError, match=message):
        plan_choice(chain(3), **options)  # type: ignore[arg-type]


def test_other_options_that_cannot_be_used() -> None:
    with pytest.raises(pgmo.errors.OptionError, match="a curve needs 2 points or more"):
        curve(chain(3), points=1)
