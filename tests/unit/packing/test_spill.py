"""Tests of plans within a budget."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.errors import BudgetError, OptionError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.spill import choose, least_budget
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, Profile
from tests.conformance.problems import problems
from tests.unit.profiler.examples import profiles


def resident_bytes(made):
    """Return the end of the last slot on the device, in bytes."""
    size = -(-made.size // made.alignment) * made.alignment
    ends = [
        (column + size)[(column != UNPLANNED) & (column < made.resident)].max(initial=0)
        for column in (made.offset, made.alternate)
    ]
    return int(max(ends))


@settings(max_examples=30, deadline=None)
@given(profiles(), st.floats(0, 1.1))
def test_every_budget_is_kept_by_a_valid_plan(profile, share):
    alignment = 64
    whole = plan(profile, alignment=alignment, effort="fast")
    least = least_budget(profile, alignment)
    budget = least + int(whole.arena * share)
    made = plan(profile, alignment=alignment, effort="fast", budget=budget)
    validate(made)
    assert made.resident + least <= budget
    assert resident_bytes(made) <= made.resident
    # The same blocks have slots as without a budget. Both slots of a block are in the same part.
    assert np.array_equal(made.offset != UNPLANNED, whole.offset != UNPLANNED)
    assert np.array_equal(made.alternate != UNPLANNED, whole.alternate != UNPLANNED)
    both = made.alternate != UNPLANNED
    assert np.array_equal(made.offset[both] < made.resident, made.alternate[both] < made.resident)
    if budget - least >= whole.arena:
        assert made.spilled == 0
        assert made.offset.tolist() == whole.offset.tolist()
    assert made.fingerprint == whole.fingerprint


@settings(max_examples=60, deadline=None)
@given(problems(), st.floats(0, 1))
def test_the_load_of_the_rest_is_within_the_room_and_none_is_spilled_in_vain(problem, share):
    room = int(max_load(problem) * share)
    spilled = choose(problem, np.arange(len(problem)), room)
    assert max_load(problem.part(~spilled)) <= room
    for entry in np.flatnonzero(spilled):
        back = spilled.copy()
        back[entry] = False
        assert max_load(problem.part(~back)) > room


def test_the_longest_lives_leave_and_only_where_too_much_is_alive():
    # A long block away from the peak, one across the peak, and two short ones at the peak.
    problem = Problem([8, 4, 4, 4], [0, 7, 9, 9], [7, 15, 10, 11])
    assert choose(problem, np.arange(4), room=8).tolist() == [False, True, False, False]
    assert not choose(problem, np.arange(4), room=12).any()
    assert choose(problem, np.arange(4), room=0).all()


def test_two_slots_of_a_block_leave_together_and_once():
    problem = Problem([4, 4, 4, 4], [0, 0, 0, 0], [4, 4, 3, 2])
    spilled = choose(problem, np.array([0, 0, 1, 2]), room=4)
    assert spilled.tolist() == [True, True, True, False]


def test_streams_are_spilled_apart():
    rows = {"size": [512] * 4, "start": range(4), "end": [4] * 4, "stream": [0, 1, 0, 1]}
    profile = Profile.from_columns(**rows, ticks=4)
    made = plan(profile, alignment=512, budget=1024)
    validate(made)
    assert made.resident == made.spilled == 1024
    assert sorted(made.stream[made.offset < 1024].tolist()) == [0, 1]


def test_blocks_without_a_slot_count():
    profile = Profile.from_columns(
        size=[100, 200, 300, 400],
        start=[0, 1, 2, 3],
        end=[NEVER, 3, 4, 4],
        shared=[False, True, True, False],
        ticks=4,
    )
    assert least_budget(profile, 1) == 100 + 500
    with pytest.raises(BudgetError) as caught:
        plan(profile, alignment=1, budget=599)
    assert str(caught.value) == (
        "the budget of 599 B cannot be met: blocks that are never freed, or that several streams "
        "share, have no slot and need 600 B by themselves; the smallest budget is 600 bytes"
    )
    assert plan(profile, alignment=1, budget=600).resident == 0
    assert plan(profile, alignment=1, budget="1000 B").spilled == 0


def test_shared_blocks_that_outlive_a_period_are_there_twice():
    rows = {"size": [100], "start": [0], "end": [3], "shared": [True]}
    assert least_budget(Profile.from_columns(**rows, ticks=2), 1) == 200


@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_the_effort_goes_into_both_parts(effort):
    rng = np.random.default_rng(3)
    start = np.arange(60)
    profile = Profile.from_columns(
        size=rng.integers(1, 99, 60) * 512,
        start=start,
        end=start + 1 + rng.integers(1, 50, 60),
        ticks=60,
    )
    whole = plan(profile, effort="fast")
    made = plan(profile, effort=effort, time_limit=0.2, threads=1, budget=whole.arena // 2)
    validate(made)
    assert 0 < made.resident <= whole.arena // 2
    assert "spilled" in repr(made)
    named = plan(profile, solver="best-fit-size", budget=whole.arena // 2)
    assert named.solver == "best-fit-size"
    validate(named)


@pytest.mark.parametrize("options", [{"time_limit": 0}, {"time_limit": 0.05, "solver": "search"}])
def test_a_budget_is_kept_if_time_is_short(options):
    rng = np.random.default_rng(4)
    count = 300
    profile = Profile.from_columns(
        size=rng.integers(1, 1 << 20, count),
        start=np.arange(count),
        end=np.minimum(np.arange(count) + rng.integers(1, 90, count), count),
        ticks=count,
        circular=False,
    )
    for budget in (profile.max_load() // 2, profile.max_load() + 512):
        made = plan(profile, budget=budget, **options)
        assert made.resident <= budget
        assert made.resident > 0.8 * min(budget, profile.max_load())


def test_a_bare_problem_has_no_budget():
    with pytest.raises(OptionError, match=re.escape("budget= is only for a Profile")):
        plan(Problem([8], [0], [1]), budget=4)
