"""What is kept of a second length, from which the sizes at others follow."""

from pgmo.allocator.session.learning.lessons import shorter_of
from pgmo.profiler.iterations.lifetimes import build_profile
from pgmo.profiler.iterations.step_finder import find_steady
from pgmo.profiler.recording import make_events, split
from tests.unit.allocator.session.learning.test_learning import (
    planned,
    recorded,
    teach,
    turn,
)


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


def test_a_longer_iteration_keeps_the_length_before():
    (new,) = teach([planned(20)], recorded(40)).plans
    assert new.plan.size.tolist() == recorded(40).size.tolist()
    assert new.plan.shorter.tolist() == recorded(20).size.tolist()


def test_the_shortest_stays_when_a_still_longer_one_comes():
    plans = teach([planned(20)], recorded(40)).plans
    (new,) = teach(plans, recorded(60)).plans
    assert new.plan.size.tolist() == recorded(60).size.tolist()
    assert new.plan.shorter.tolist() == recorded(20).size.tolist()


def test_a_new_request_has_no_size_at_the_length_before():
    plans = teach([planned(20)], recorded(40, more=(7_777_777,))).plans
    new = next(one for one in plans if 7_777_777 in one.plan.size)
    shorter = new.plan.shorter.tolist()
    assert shorter.count(0) == 1
    assert [size for size in shorter if size] == recorded(20).size.tolist()
