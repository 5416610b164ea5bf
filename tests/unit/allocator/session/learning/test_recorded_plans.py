"""Plans from recordings: one for each structure, for all of its recorded lengths."""

import numpy as np

from pgmo.allocator.plans.plan_set import PlannedProfile, requests_of
from pgmo.allocator.session.learning.recorded_plans import is_planned, plan_all, shorter_of
from pgmo.packing.planner import plan as make_plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.lifetimes import build_profile
from pgmo.profiler.iterations.step_finder import find_steady
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import make_events, split

FIXED = [640, 1280, 320]
VARYING = [True] * 4 + [False] * 4
MORE = (77, 999, 4321, 9_000, 17, 2_000_000)
HOW = PlanningOptions(effort="fast", alignment=64)


def turn(length, first=0, more=()):
    """Return the events of an iteration of one length: activations and temporaries."""
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
    """Return the plan of a loop that was recorded at these lengths."""
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


def test_planned_means_for_sizes_as_large_as_these():
    assert is_planned([planned(4, 8)], recorded(6))
    assert is_planned([planned(4, 8)], recorded(8))
    assert not is_planned([planned(4, 8)], recorded(9))
    assert not is_planned([planned(4, 8)], recorded(6, more=(1000, 2000, 3000)))
    assert not is_planned([planned(8)], recorded(6))  # the plan's sizes are fixed
    assert not is_planned([], recorded(8))


def test_requests_of_plans_are_what_is_compared():
    assert requests_of(planned(4).plan).same_requests(recorded(4))


# --- the shortest length, from which sizes at other lengths are derived ----------------------


def recording(*lengths, more=None):
    """Return iterations at these lengths; those in `more` have further requests."""
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


def test_requests_that_the_shortest_iteration_lacks_have_size_0_there():
    more = {0: (7_777_777,), 2: (7_777_777,), 3: (7_777_777,)}
    iterations, steady, profile = recording(20, 10, 40, 30, more=more)
    shorter = shorter_of(iterations, steady, profile).tolist()
    assert shorter.count(0) == 1
    assert [size for size in shorter if size] == recorded(10).size.tolist()


def test_iterations_of_one_length_teach_nothing():
    assert shorter_of(*recording(20, 20, 20)) is None


def plans_of(known, *lengths, more=None):
    """Return the plans after a recording at these lengths, and the newest plan's number."""
    iterations, steady, profile = recording(*lengths, more=more)
    return plan_all(iterations, [(profile, steady)], known, HOW, keeps_gaps=False)


def test_lengths_share_a_plan_and_distinguish_families():
    """At the longest length, two families may have equal sizes."""
    (one,), number = plans_of([], 6, 10, 8)
    assert number == 0
    assert one.plan.size.tolist() == recorded(10).size.tolist()
    assert one.plan.varying.tolist() == VARYING
    assert one.plan.shorter.tolist() == recorded(6).size.tolist()
    assert len(np.unique(one.families)) == len(np.unique(recorded(6).size))


def test_a_plan_that_serves_all_lengths_of_another_takes_its_place():
    (one,), number = plans_of([planned(4, 8)], 4, 10, 6)
    assert number == 0
    assert one.plan.size.tolist() == recorded(10).size.tolist()
    # A loaded plan has no profile.
    (one,), _ = plans_of([PlannedProfile(planned(4, 8).plan, None)], 4, 10)
    assert one.plan.size.tolist() == recorded(10).size.tolist()


def test_a_plan_in_the_place_of_others_counts_as_followed_when_they_were():
    before = [planned(4, 8), planned(4, 6)]
    before[0].followed, before[1].followed = 3, 7
    (one,), _ = plans_of(before, 4, 10, 6)
    assert one.followed == 7


def test_a_plan_for_another_length_or_structure_stays():
    first = planned(4, 8)
    plans, number = plans_of([first], 10, 10)  # with one length, sizes are fixed
    assert (plans[0], number, len(plans)) == (first, 1, 2)
    more = {0: MORE, 1: MORE}
    plans, number = plans_of([first], 5, 5, more=more)
    assert (plans[0], number, len(plans)) == (first, 1, 2)
    assert plans[1].plan.size.tolist() == recorded(5, more=MORE).size.tolist()
