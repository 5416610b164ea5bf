"""Plans from recordings: which structures are united, and which get a plan of their own."""

import numpy as np

from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.recorded_plans import (
    Structure,
    is_planned,
    merge,
    shorter_members,
    shorter_of,
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
MORE = (77, 999, 4321, 9_000, 17, 2_000_000)
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


def merged(plans, one):
    """What these plans are with another structure, and its number."""
    structures, number = merge([Structure.of(plan) for plan in plans], one)
    return [structure.planned(HOW) for structure in structures], number


def structure(length, more=()):
    return Structure(planned(length, more=more).profile, recorded(length, more=more))


# --- several lengths --------------------------------------------------------------------------


def test_a_longer_length_widens_the_plan_of_its_structure():
    plans, number = merged([planned(4, 8)], structure(10))
    assert number == 0
    assert plans[0].plan.size.tolist() == recorded(10).size.tolist()
    validate(plans[0].plan)
    plans, number = merged(plans, structure(6))
    assert plans[number].plan.size.tolist() == recorded(10).size.tolist()
    assert plans[number].plan.varying.tolist() == VARYING


def test_fixed_requests_that_come_at_another_size_vary_from_then_on():
    ((one,), _) = merged([planned(8)], structure(6))
    assert one.plan.size.tolist() == recorded(8).size.tolist()
    assert one.plan.varying.tolist() == VARYING


def test_a_shorter_length_tells_families_apart():
    """At the longest length two of them are alike."""
    known = planned(4, 8)
    alike = PlannedProfile(known.plan, known.profile, np.zeros(8, np.uint32))
    ((one,), _) = merged([alike], structure(6))
    assert len(np.unique(one.families)) == len(np.unique(recorded(6).size))


def test_a_request_that_comes_in_between_gets_a_row_in_the_plan():
    ((one,), _) = merged([planned(4, 8)], structure(8, more=(48,)))
    assert one.plan.size.tolist() == recorded(8, more=(48,)).size.tolist()
    validate(one.plan)
    assert is_planned([one], recorded(8))


def test_a_loaded_plan_grows_without_its_profile():
    ((one,), _) = merged([PlannedProfile(planned(4, 8).plan, None)], structure(9))
    assert one.profile is not None
    assert one.plan.size.tolist() == recorded(9).size.tolist()


# --- several structures -----------------------------------------------------------------------


def test_another_structure_gets_a_plan_of_its_own():
    """Together more would be alive than ever is."""
    first, more = planned(10), MORE[:3]
    plans, number = merged([first], structure(5, more=more))
    assert (number, len(plans)) == (1, 2)
    assert plans[0] is first
    assert plans[1].plan.size.tolist() == recorded(5, more=more).size.tolist()


def test_a_union_of_which_all_is_used_on_several_streams_gives_way_to_the_newer_one():
    first = Profile.from_columns(size=[8, 8], start=[0, 1], end=[1, 2], ticks=2, shared=[1, 0])
    known = PlannedProfile(make_plan(first), first)
    rows = [("request", 8), ("free", 0), ("request", 9), ("shared", 1), ("free", 1), ("step",)]
    iteration = split(make_events(rows))[0]
    other = Profile.from_columns(size=[8, 9], start=[0, 1], end=[1, 2], ticks=2, shared=[0, 1])
    ((both,), _) = merged([known], Structure(other, iteration))
    assert both.plan.shared.tolist() == [False, True]


def test_planned_means_for_sizes_as_large_as_these():
    assert is_planned([planned(4, 8)], recorded(6))
    assert is_planned([planned(4, 8)], recorded(8))
    assert not is_planned([planned(4, 8)], recorded(9))
    assert not is_planned([planned(4, 8)], recorded(6, more=(1000, 2000, 3000)))
    assert not is_planned([], recorded(8))


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
    (own,) = shorter_members(iterations, steady, profile)
    assert own.profile.size.tolist() == short  # the larger of the two
    assert own.requests.index == 3
    assert own.profile.steady


def test_requests_of_plans_are_what_is_compared():
    assert requests_of(planned(4).plan).same_requests(recorded(4))


# --- the shortest length, from which the sizes at others follow ------------------------------


def recording(*lengths, more=None):
    """Iterations at these lengths; those in `more` have further requests."""
    events, first = [], 0
    for at, length in enumerate(lengths):
        own = turn(length, first, (more or {}).get(at, ()))
        events += own
        first += sum(event[0] == "request" for event in own)
    iterations = split(make_events(events))
    steady = find_steady(iterations)
    return iterations, steady, build_profile(iterations, steady)


def test_the_shortest_of_the_recorded_iterations_is_kept():
    iterations, steady, profile = recording(20, 10, 40, 30)
    assert profile.size.tolist() == recorded(40).size.tolist()
    assert shorter_of(iterations, steady, profile).tolist() == recorded(10).size.tolist()


def test_what_the_shortest_one_leaves_out_has_no_size_there():
    more = {0: (7_777_777,), 2: (7_777_777,), 3: (7_777_777,)}
    iterations, steady, profile = recording(20, 10, 40, 30, more=more)
    shorter = shorter_of(iterations, steady, profile).tolist()
    assert shorter.count(0) == 1
    assert [size for size in shorter if size] == recorded(10).size.tolist()


def test_iterations_of_one_length_tell_nothing():
    assert shorter_of(*recording(20, 20, 20)) is None


def test_a_longer_structure_keeps_the_length_before():
    ((one,), _) = merged([planned(20)], structure(40))
    assert one.plan.shorter.tolist() == recorded(20).size.tolist()
    ((one,), _) = merged([one], structure(60))
    assert one.plan.shorter.tolist() == recorded(20).size.tolist()


def test_a_new_request_has_no_size_at_the_length_before():
    ((one,), _) = merged([planned(20)], structure(40, more=(7_777_777,)))
    shorter = one.plan.shorter.tolist()
    assert shorter.count(0) == 1
    assert [size for size in shorter if size] == recorded(20).size.tolist()
