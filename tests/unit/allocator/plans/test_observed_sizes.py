"""What a plan with headroom is saved as: the sizes that came, and no more."""

import os
from dataclasses import replace

import pytest

from pgmo.allocator.plans.observed_sizes import ObservedSizes
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.statistics import Phase
from pgmo.errors import AdapterError
from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan as make_plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import make_events, split
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


def planned(sizes, headroom=0.0, varying=(True, True, False)):
    """Three blocks, all alive at once; the last one is a parameter's gradient."""
    profile = Profile.from_columns(
        size=sizes, start=[0, 1, 2], end=[3, 3, 3], varying=list(varying), ticks=3
    )
    return PlannedProfile(make_plan(profile, alignment=64), profile, headroom)


def iteration(*sizes):
    (one,) = split(make_events([*(("request", size) for size in sizes), ("step",)]))
    return one


def saved(seen, one):
    return seen.without_headroom(one, PlanningOptions(effort="fast", alignment=64))


def note(seen, one, *sizes):
    return seen.note(one, iteration(*sizes), sum(sizes))


def test_a_plan_with_headroom_is_saved_for_the_sizes_seen():
    seen, roomy = ObservedSizes(), planned([1280, 640, 64], headroom=0.25)
    assert note(seen, roomy, 1024, 512, 64)
    made = saved(seen, roomy)
    assert made.plan.size.tolist() == made.profile.size.tolist() == [1024, 512, 64]
    assert made.plan.arena == 1600 < roomy.plan.arena
    assert made.headroom == 0
    assert made.plan.alignment == 64


def test_sizes_are_the_largest_of_each_request_and_never_more_than_planned():
    seen, roomy = ObservedSizes(), planned([1280, 640, 64], headroom=0.25)
    note(seen, roomy, 1024, 512, 64)
    assert note(seen, roomy, 960, 576, 64)
    assert not note(seen, roomy, 1000, 500, 64)
    assert saved(seen, roomy).plan.size.tolist() == [1024, 576, 64]
    note(seen, roomy, 9999, 9999, 9999)  # did not follow the plan
    assert saved(seen, roomy).plan.size.tolist() == [1280, 640, 64]


def test_what_does_not_vary_keeps_its_size():
    seen, roomy = ObservedSizes(), planned([1280, 640, 64], headroom=0.25)
    note(seen, roomy, 1024, 512, 8)
    assert saved(seen, roomy).plan.size.tolist() == [1024, 512, 64]


@pytest.mark.parametrize(
    "one",
    [
        planned([1024, 512, 64]),
        planned([1280, 640, 64], headroom=0.25),  # nothing was noted of it
        replace(planned([1280, 640, 64], headroom=0.25), profile=None),
    ],
    ids=["no headroom", "unknown sizes", "loaded"],
)
def test_other_plans_are_saved_as_they_are(one):
    assert saved(ObservedSizes(), one) is one


def test_a_plan_without_headroom_is_saved_as_it_is_though_smaller_sizes_were_noted():
    seen, tight = ObservedSizes(), planned([1024, 512, 64])
    note(seen, tight, 500, 500, 64)
    assert saved(seen, tight) is tight


def test_another_number_of_requests_is_not_noted():
    seen, roomy = ObservedSizes(), planned([1280, 640, 64], headroom=0.25)
    assert not note(seen, roomy, 1024, 512)
    assert saved(seen, roomy) is roomy


def test_only_larger_iterations_of_plans_with_headroom_are_worth_a_look():
    seen, roomy, tight = ObservedSizes(), planned([1280, 640, 64], 0.25), planned([1024, 512, 64])
    assert not seen.larger_than_before(tight, 1 << 30)
    assert seen.larger_than_before(roomy, 1)
    note(seen, roomy, 1024, 512, 64)
    assert not seen.larger_than_before(roomy, 1600)
    assert seen.larger_than_before(roomy, 1601)
    note(seen, roomy, 1, 513, 64)  # smaller in all
    assert not seen.larger_than_before(roomy, 1600)


def test_sizes_follow_from_plan_to_plan():
    """Also when more requests are found to vary, which is another structure's key."""
    first = planned([1024, 512, 64], varying=[True, False, False])
    second = planned([1280, 512, 64], 0.25, varying=[True, False, False])
    third = planned([1600, 640, 64], 0.25)
    assert second.key != third.key
    seen = ObservedSizes()
    seen.follow(first, second)
    assert saved(seen, second).plan.size.tolist() == [1024, 512, 64]  # all of the first's came
    note(seen, second, 1200, 300, 64)
    seen.follow(second, third)
    assert saved(seen, second) is second
    note(seen, third, 700, 600, 64)
    assert saved(seen, third).plan.size.tolist() == [1200, 600, 64]
    assert seen.larger_than_before(third, 1365)  # largest so far is the iteration noted last


def test_all_sizes_of_a_plan_without_headroom_came_whatever_was_noted_of_its_structure():
    """Recorded again, it may have room for iterations that nobody noted."""
    seen = ObservedSizes()
    old = planned([1280, 640, 64], 0.25)
    note(seen, old, 900, 512, 64)
    recorded = planned([1280, 512, 64])
    grown = planned([1600, 640, 64], 0.25)
    assert old.key == recorded.key
    seen.follow(recorded, grown)
    note(seen, grown, 1000, 600, 64)
    assert saved(seen, grown).plan.size.tolist() == [1280, 600, 64]


def test_a_plan_for_just_the_sizes_seen_needs_no_memory_of_them():
    seen, old = ObservedSizes(), planned([1280, 640, 64], 0.25)
    note(seen, old, 1024, 512, 64)
    seen.follow(old, planned([1300, 650, 64]))
    assert saved(seen, old) is old


# --- in sessions --------------------------------------------------------------------------------

RISING = [*range(100, 130, 3), *range(130, 170, 2)]
"""Lengths, of which the later ones find some room in the plans of the ones before."""


def train(adapter, lengths, **options):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, **options) as session:
        for loop.scale in lengths:
            run(loop, session, 1)
        loop.finish()
    return session


def arena_of(lengths):
    """Of a plan that knows these lengths from the beginning."""
    most = max(lengths)
    return train(SimulatedAdapter(), [most] * 6).plan.arena


@pytest.fixture
def trained(adapter, tmp_path):
    session = train(adapter, RISING, save=tmp_path, model_name="loop")
    assert session.summary().replans < len(RISING) // 2  # so some had headroom
    return session


def test_a_saved_plan_has_room_for_the_lengths_seen_and_no_more(trained, tmp_path):
    plan = Plan.load(tmp_path / "loop.pgmoplan")
    assert plan.size.max() == max(LAYERS) * max(RISING)
    assert trained.plan.size.max() > plan.size.max()
    assert plan.arena == arena_of(RISING) < trained.plan.arena


def test_whoever_loads_it_is_served_at_all_of_them_from_the_first_iteration_on(trained, tmp_path):
    fresh = SimulatedAdapter()
    again = train(fresh, RISING, plan=tmp_path / "loop.pgmoplan")
    assert {one.phase for one in again.history} == {Phase.REPLAY}
    assert again.history[0].misses["persistent"] == len(LAYERS)  # state is born
    assert all(one.hits == one.requests - one.misses["persistent"] for one in again.history)
    assert all(one.misses["persistent"] == 0 for one in again.history[1:])
    assert again.summary().replans == 0
    assert len(fresh.arenas[0]) == 1


def test_it_tells_the_sizes_at_another_length(trained, tmp_path):
    plan = Plan.load(tmp_path / "loop.pgmoplan")
    lengths = plan.shorter[plan.varying] // (plan.size[plan.varying] // max(RISING))
    assert len(set(lengths.tolist())) == 1
    assert lengths[0] in RISING[:3]


def test_lengths_within_the_headroom_are_saved_at_the_end(adapter, tmp_path):
    """None of them costs a plan, and so none is saved before."""
    loop = Loop(adapter, LAYERS)
    file = tmp_path / "loop.pgmoplan"
    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        for loop.scale in RISING:
            run(loop, session, 1)
        replans, written = session.summary().replans, file.stat().st_mtime_ns
        room = int(session.plan.size.max() // max(LAYERS))
        length = min(room, max(RISING) + 2)
        assert length > max(RISING), "there is no headroom left to look into"
        loop.scale = length
        run(loop, session, 1)
        assert session.history[-1].hit_rate == 1
        assert session.summary().replans == replans
        assert file.stat().st_mtime_ns == written
        loop.finish()
    assert Plan.load(file).size.max() == max(LAYERS) * length


def test_nothing_is_saved_at_the_end_where_nothing_came(adapter, tmp_path):
    loop = Loop(adapter, LAYERS)
    file = tmp_path / "loop.pgmoplan"
    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        run(loop, session, 6)
        file.unlink()
        loop.finish()
    assert not file.exists()


def test_a_forked_child_leaves_the_file_to_its_parent(adapter, tmp_path):
    loop = Loop(adapter, LAYERS)
    file = tmp_path / "loop.pgmoplan"
    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        for loop.scale in RISING:
            run(loop, session, 1)
        assert session._lifecycle._monitor.unsaved
        before = file.stat().st_mtime_ns
        child = os.fork()
        if child == 0:
            session.close()
            os._exit(int(file.stat().st_mtime_ns != before))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        loop.finish()
    assert file.stat().st_mtime_ns != before


def test_sizes_are_still_known_when_there_was_no_memory_for_a_larger_plan(
    adapter, tmp_path, monkeypatch
):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        for loop.scale in RISING:
            run(loop, session, 1)
        limit, take = session.plan.arena, adapter.take_arena

        def refuse(size, stream):
            if size > limit:
                raise AdapterError("no memory")
            return take(size, stream)

        monkeypatch.setattr(adapter, "take_arena", refuse)
        loop.scale = 2 * max(RISING)
        with pytest.warns(UserWarning, match="the plans so far go on serving"):
            run(loop, session, 1)
        loop.scale = max(RISING)
        run(loop, session, 3)
        assert session.history[-1].hit_rate == 1
        loop.finish()
    assert Plan.load(tmp_path / "loop.pgmoplan").arena == arena_of(RISING)


def test_of_a_plan_without_headroom_nothing_is_kept():
    seen = ObservedSizes()
    assert not note(seen, planned([1280, 640, 64]), 1024, 512, 64)
    assert len(seen) == 0


def test_sizes_of_a_plan_that_was_dropped_are_forgotten():
    seen, roomy = ObservedSizes(), planned([1280, 640, 64], headroom=0.25)
    note(seen, roomy, 1024, 512, 64)
    seen.forget_others([roomy])
    assert len(seen) == 1
    seen.forget_others([planned([1280, 640, 64], varying=(False, False, False))])
    assert len(seen) == 0
    assert seen.known_up_to(roomy) == 0
