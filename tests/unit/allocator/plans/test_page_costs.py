"""When a plan pays: never much worse than the better of plan and no plan."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.allocator.plans.page_costs import PAGE, PageCosts

PAGES = 100


@dataclass
class Plan:
    arena: int = PAGES * PAGE


@dataclass
class Planned:
    plan: Plan = field(default_factory=Plan)


PLANS = [Planned()]


def calls(moved, created=0):
    return {"maps": moved + created, "creates": created}


def test_new_pages_are_nobodys_fault():
    costs = PageCosts()
    costs.without_plan(calls(0, created=5000))
    assert not costs.pays(PLANS)
    costs.without_plan(calls(PAGES))
    assert costs.pays(PLANS)


def test_a_plan_that_moves_no_more_than_windows_stays():
    costs = PageCosts()
    for _ in range(4):
        costs.without_plan(calls(30))
    costs.serve()
    for _ in range(1000):
        costs.with_plan(calls(30))
    assert not costs.overspent(PLANS)


def test_a_plan_that_has_given_way_has_to_pay_twice_as_much():
    costs = PageCosts()
    costs.with_plan(calls(PAGES))  # which come to it
    assert not costs.overspent(PLANS)
    costs.with_plan(calls(PAGES + 1))
    assert costs.overspent(PLANS)
    costs.give_way()
    costs.without_plan(calls(PAGES))
    assert not costs.pays(PLANS)
    costs.without_plan(calls(PAGES))
    assert costs.pays(PLANS)


def spent(windows, planned):
    """Pages that are moved in all, where each iteration costs what is said, with a plan or not."""
    costs, total, serving = PageCosts(), 0, False
    for with_windows, with_plan in zip(windows, planned, strict=True):
        if serving:
            total += with_plan
            costs.with_plan(calls(with_plan))
            if costs.overspent(PLANS):
                costs.give_way()
                serving = False
        else:
            total += with_windows
            costs.without_plan(calls(with_windows))
            if costs.pays(PLANS):
                total += PAGES  # they come into the arena
                costs.serve()
                serving = True
    return total, costs.failures


@given(st.lists(st.integers(0, 3 * PAGES), min_size=1, max_size=400))
def test_a_perfect_plan_costs_at_most_what_it_saves_and_twice_its_pages(windows):
    total, _ = spent(windows, [0] * len(windows))
    assert total <= min(sum(windows), PAGES + max(windows)) + PAGES


@given(st.lists(st.integers(0, PAGES), min_size=1, max_size=400), st.integers(1, 3 * PAGES))
def test_a_bad_plan_costs_a_multiple_of_its_pages_for_each_attempt(windows, extra):
    total, failures = spent(windows, [each + extra for each in windows])
    # It is noticed once it has moved its pages, and by then one iteration may have come on top.
    each = 3 * PAGES + PAGES + extra
    # What windows would have moved meanwhile counts at most once more.
    assert total <= 2 * sum(windows) + (failures + 1) * each


@pytest.mark.parametrize("iterations", [100, 1000, 10_000])
def test_attempts_become_rare(iterations):
    _, failures = spent([PAGES // 10] * iterations, [PAGES] * iterations)
    assert failures <= iterations.bit_length()
