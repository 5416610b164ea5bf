import numpy as np

from pgmo.allocator.plans.plan_set import PlannedProfile, PlanSet, requests_of
from pgmo.packing.planner import plan
from pgmo.profiler.iterations.iteration_kinds import first_difference
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import make_events, split
from tests.unit.allocator.simulated import SimulatedAdapter
from tests.unit.profiler.examples import small_profile


def planned(size):
    profile = Profile.from_columns(size=[size, 64], start=[0, 1], end=[1, 2], ticks=2)
    return PlannedProfile(plan(profile), profile)


def test_an_arena_that_somebody_needs_meanwhile_comes_again(monkeypatch):
    adapter = SimulatedAdapter()
    adapter.request(64)
    adapter.install()
    plans = PlanSet(adapter)
    add = PlanSet._add

    def yielding(self, one):
        add(self, one)
        adapter.engine.yield_idle()  # as another thread's request does, when malloc refuses

    monkeypatch.setattr(PlanSet, "_add", yielding)
    both = [planned(128), planned(256)]
    plans.install(both)
    assert not adapter.engine.has_arena
    monkeypatch.undo()
    plans.install(both)
    assert adapter.engine.has_arena


def test_requests_are_those_of_the_profile():
    profile = small_profile()
    requests = requests_of(plan(profile))
    for column in ("size", "stream", "shared"):
        assert np.array_equal(getattr(requests, column), getattr(profile, column)), column


def test_explanations_call_a_plan_a_plan():
    (iteration,) = split(make_events([("request", 8), ("step",)]))
    text = first_difference(requests_of(plan(small_profile())), iteration)
    assert "the plan" in text
    assert "in iteration 0" in text
    assert "-1" not in text
