import numpy as np

from pgmo.allocator.plans.conversions import requests_of
from pgmo.packing.planner import plan
from pgmo.profiler.iterations.iteration_kinds import first_difference
from pgmo.profiler.recording import make_events, split
from tests.unit.profiler.examples import small_profile


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
