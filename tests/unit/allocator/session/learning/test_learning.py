"""What one iteration teaches, and which plans it changes."""

import numpy as np
import pytest

from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.lessons import (
    closest,
    is_planned,
    learn,
    merge,
    relatives,
    without_provisional,
)
from pgmo.packing.planner import plan as make_plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.packing.validator import validate
from pgmo.profiler.iterations.lifetimes import build_profile
from pgmo.profiler.iterations.step_finder import find_steady
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import make_events, split

FIXED = [640, 1280, 320]
VARYING = [True] * 4 + [False] * 4
HOW = PlanningOptions(effort="fast", alignment=64)


def turn(length, first=0, more=()):
    """Activations of some length and temporaries, all freed before the last request; as events."""
    sizes = [100 * length, *(8 * length + at for at in range(3)), *more, *FIXED]
    return [
        *(("request", size) for size in sizes),
        *(("free", first + at) for at in range(len(sizes))),
        ("request", 16),
        ("free", first + len(sizes)),
        ("step",),
    ]


def recorded(length, more=()):
    return split(make_events(turn(length, more=more)))[0]


def planned(*lengths, more=()):
    """The plan of a loop that was recorded at these lengths."""
    size = np.maximum.reduce([recorded(one, more).size for one in lengths])
    varying = np.array([recorded(one, more).size for one in lengths]).std(axis=0) > 0
    ticks = len(size)
    profile = Profile.from_columns(
        size=size,
        start=range(ticks),
        end=[ticks - 1] * (ticks - 1) + [ticks],
        ticks=ticks,
        varying=varying,
    )
    return PlannedProfile(make_plan(profile), profile)


def teach(plans, iteration, followed=0, headroom=0.0):
    return learn(plans, iteration, followed, headroom=headroom, planning=HOW)


# --- one iteration ----------------------------------------------------------------------------


def test_the_same_structure_at_larger_sizes_is_planned_for_both():
    lesson = teach([planned(4, 8)], recorded(10))
    assert lesson.number == 0
    (one,) = lesson.plans
    assert one.plan.size.tolist() == recorded(10).size.tolist()
    assert lesson.grown == pytest.approx(0.25)
    assert one.headroom == 0
    validate(one.plan)


def test_fixed_requests_that_come_at_another_size_vary_from_then_on():
    lesson = teach([planned(8)], recorded(6))
    (one,) = lesson.plans
    assert one.plan.size.tolist() == recorded(8).size.tolist()
    assert one.plan.varying.tolist() == VARYING
    assert lesson.grown == 0


@pytest.mark.parametrize(
    ("length", "headroom", "share"),
    [(110, 1 / 16, 1 / 16), (101, 1 / 16, 2 / 100), (101, 0.0, 0.0)],
)
def test_headroom_is_twice_the_growth_at_most(length, headroom, share):
    lesson = teach([planned(50, 100)], recorded(length), headroom=headroom)
    (one,) = lesson.plans
    assert one.headroom == pytest.approx(share, rel=0.01)
    assert one.plan.size[0] == pytest.approx(100 * length * (1 + share), rel=0.001)
    assert one.plan.size[4:-1].tolist() == FIXED


def test_growth_is_counted_from_what_was_seen_and_not_from_the_headroom():
    """Else it would be little, little more would be left, and it would outgrow at every step."""
    plans, lessons = [planned(50, 100)], 0
    for length in range(101, 201):
        if plans[0].plan.size[0] < 100 * length:
            plans = teach(plans, recorded(length), headroom=1 / 16).plans
            lessons += 1
    assert lessons <= 15


def test_another_structure_gets_a_plan_of_its_own():
    other = recorded(5, more=(77, 999, 4321, 9_000, 17, 2_000_000))
    first = planned(4, 8)
    lesson = teach([first], other)
    assert lesson.plans[0] is first
    assert lesson.number == 1
    assert lesson.plans[1].plan.size.tolist() == other.size.tolist()
    assert lesson.grown == 0
    validate(lesson.plans[1].plan)


def test_the_plan_that_served_it_is_the_one_that_grows():
    """Of two that are alike, each of as many requests."""
    short, long = planned(4, 8), planned(40, 80)
    assert teach([short, long], recorded(81), followed=1).number == 1
    assert teach([short, long], recorded(81), followed=0).number == 0


def test_an_iteration_that_fits_teaches_nothing():
    assert teach([planned(4, 8)], recorded(6)) is None


def test_an_iteration_that_fits_may_teach_which_sizes_change_together():
    """At the longest length two of them are alike."""
    known = planned(4, 8)
    alike = PlannedProfile(known.plan, known.profile, 0.0, np.zeros(8, np.uint32))
    lesson = teach([alike], recorded(6))
    (one,) = lesson.plans
    assert one.plan.size.tolist() == known.plan.size.tolist()
    assert len(np.unique(one.families)) == len(np.unique(recorded(6).size))
    assert lesson.grown == 0


def test_a_request_that_comes_in_between_gets_a_row_in_the_plan():
    lesson = teach([planned(4, 8)], recorded(8, more=(48,)))
    (one,) = lesson.plans
    assert one.plan.size.tolist() == recorded(8, more=(48,)).size.tolist()
    validate(one.plan)
    assert teach(lesson.plans, recorded(8)) is None


@pytest.mark.parametrize("followed", [0, 1, -1])
def test_there_is_nothing_to_learn_from_what_is_planned(followed):
    assert teach([planned(4, 8), planned(5)], recorded(5), followed) is None
    assert teach([planned(4, 8), planned(5)], recorded(8), followed) is None


def test_there_is_nothing_to_learn_from_nothing():
    (empty,) = split(make_events([("step",)]))
    assert teach([planned(4)], empty) is None


def test_a_plan_without_a_single_block_is_none():
    (leaks,) = split(make_events([("request", 12_345), ("request", 99), ("step",)]))
    assert teach([planned(4)], leaks) is None


def test_a_plan_of_which_all_is_used_on_several_streams_is_none():
    first = Profile.from_columns(size=[8, 8], start=[0, 1], end=[1, 2], ticks=2, shared=[1, 0])
    known = PlannedProfile(make_plan(first), first)
    rows = [("request", 8), ("free", 0), ("request", 9), ("shared", 1), ("free", 1), ("step",)]
    iteration = split(make_events(rows))[0]
    assert teach([known], iteration) is None
    other = Profile.from_columns(size=[8, 9], start=[0, 1], end=[1, 2], ticks=2, shared=[0, 1])
    ((merged,), _) = merge([known], other, iteration, HOW)
    assert merged.plan.shared.tolist() == [False, True]  # the newer one alone


def test_a_loaded_plan_grows_without_its_profile():
    known = planned(4, 8)
    lesson = teach([PlannedProfile(known.plan, None)], recorded(9))
    assert lesson.plans[0].profile is not None
    assert lesson.plans[0].plan.size.tolist() == recorded(9).size.tolist()


# --- what is known for good -------------------------------------------------------------------


def provisional(length, more=()):
    """A plan from an iteration at whose end something without a counterpart was alive."""
    rows = turn(length, more=more)
    rows.remove(("free", len(recorded(length, more)) - 2))
    lesson = teach([planned(1, more=(5, 6, 7, 8, 9, 10))], split(make_events(rows))[0])
    assert lesson.plans[-1].provisional
    return lesson.plans[-1]


def test_what_one_iteration_leaves_open_is_provisional():
    assert not planned(4).provisional
    assert not PlannedProfile(planned(4).plan, None).provisional
    assert provisional(4).plan.offset[-2] < 0


def test_planned_means_for_sizes_as_large_as_these_and_for_good():
    assert is_planned([planned(4, 8)], recorded(6))
    assert is_planned([planned(4, 8)], recorded(8))
    assert not is_planned([planned(4, 8)], recorded(9))
    assert not is_planned([planned(4, 8)], recorded(6, more=(1000, 2000, 3000)))
    assert not is_planned([provisional(8)], recorded(8))
    assert not is_planned([planned(8), provisional(8)], recorded(8))
    assert not is_planned([], recorded(8))


def test_provisional_plans_go_where_their_structure_was_recorded():
    good, other = planned(4, 8), provisional(3, more=range(1000, 9000, 500))
    plans = [provisional(8), good, other]
    assert without_provisional(plans, [recorded(6)]) == [good, other]
    assert without_provisional(plans, []) == plans


def test_merging_widens_the_plan_of_the_same_structure():
    profile = planned(10).profile
    plans, number = merge([planned(4, 8)], profile, recorded(10), HOW)
    assert number == 0
    assert plans[0].plan.size.tolist() == recorded(10).size.tolist()
    smaller = planned(6).profile
    plans, number = merge(plans, smaller, recorded(6), HOW)
    assert plans[number].plan.size.tolist() == recorded(10).size.tolist()
    assert plans[number].plan.varying.tolist() == VARYING


def test_merging_another_structure_adds_a_plan():
    first = planned(4)
    more = (77, 999, 4321, 9_000, 17, 2_000_000)
    plans, number = merge([first], planned(5, more=more).profile, recorded(5, more=more), HOW)
    assert (number, len(plans)) == (1, 2)
    assert plans[0] is first


def test_shorter_members_of_a_structure_get_plans_of_their_own():
    """Another kernel was chosen at the second length: one request is left out."""
    long = [100, 200, 50, 31, 48, 49, 51, 52, 53, 54, 55]
    short = [size for size in long if size != 31]
    shorter = [90, 180, *short[2:]]
    rows, first = [], 0
    for sizes in ([7, 8, 9], long, long, short, shorter, long):  # the very first is no member
        rows += [("request", size) for size in sizes]
        rows += [("free", first + at) for at in range(len(sizes))] + [("step",)]
        first += len(sizes)
    iterations = split(make_events(rows))
    steady = find_steady(iterations)
    profile = build_profile(iterations, steady)
    assert len(profile) == len(long)
    ((own, reference),) = relatives(iterations, steady, profile)
    assert own.size.tolist() == short  # the larger of the two
    assert reference.index == 3
    assert own.steady


def test_requests_of_plans_are_what_is_compared():
    assert requests_of(planned(4).plan).same_requests(recorded(4))


def test_of_plans_that_have_all_requests_the_one_with_fewest_is_closest():
    larger = planned(40, more=(7_777_777, 8_888_888))
    assert closest([larger, planned(40)], recorded(40)) == 1
    assert closest([larger, planned(40)], recorded(20)) == 1
    assert closest([larger, planned(40)], recorded(40, more=(7_777_777,))) == 0
    assert closest([planned(20)], recorded(40)) == -1
