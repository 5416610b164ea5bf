import numpy as np

from pgmo.allocator.conversions import profile_of, requests_of
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.portfolio import plan
from pgmo.packing.validator import validate
from pgmo.profiler.matching import first_difference
from pgmo.profiler.recording import make_events, split
from tests.unit.profiler.examples import small_profile


def test_a_plan_made_again_keeps_the_same_blocks_out():
    first = plan(small_profile())
    profile = profile_of(first)
    assert profile.shared.tolist() == small_profile().shared.tolist()
    again = plan(profile.widened(profile.size + 64))
    validate(again)
    out = first.offset == UNPLANNED
    assert np.flatnonzero(out).tolist() == [3, 5]
    assert np.array_equal(out, again.offset == UNPLANNED)


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
