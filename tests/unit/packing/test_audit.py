from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from pgmo.packing.audit import audit
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from tests.unit.profiler.examples import profiles, small_profile


def failed(plan, profile=None):
    checks = audit(plan, profile)
    return {check.name: check for check in checks if not check.passed}


@settings(max_examples=50, deadline=None)
@given(profiles())
def test_plans_of_the_planner_pass(profile):
    assert not failed(plan(profile, solver="best-fit"), profile)


@pytest.fixture
def profile():
    return Profile.from_columns(size=[64, 128, 64], start=[0, 1, 2], end=[2, 3, 4], ticks=3)


@pytest.fixture
def good(profile):
    return plan(profile)


def test_overlapping_blocks(good):
    check = failed(replace(good, offset=np.zeros(3, np.int64)))["slots"]
    assert check.detail.startswith("blocks 0 and 2 overlap at tick 0: ")


def test_an_offset_off_the_alignment(good):
    check = failed(replace(good, offset=good.offset + 8, arena=good.arena + 64))["slots"]
    assert "must be a multiple of the alignment 64" in check.detail


@pytest.mark.parametrize("change", [-64, 64])
def test_a_max_load_that_the_blocks_do_not_have(good, change):
    said = good.max_load + change
    check = failed(replace(good, max_load=said))["max load"]
    assert f"({said} bytes)" in check.detail
    assert f"({good.max_load} bytes)" in check.detail


def test_a_bound_beyond_the_arena_or_below_the_load(good):
    for bound in (good.arena + 1, good.max_load - 1):
        assert f"({bound} bytes)" in failed(replace(good, bound=bound))["bound"].detail


def test_an_optimum_without_proof(good):
    larger = replace(good, arena=good.arena + 64, optimal=True)
    assert "is called optimal" in failed(larger)["bound"].detail
    assert "is called not optimal" in failed(replace(good, optimal=False))["bound"].detail


def test_the_proof_of_the_bound_is_reported(good):
    # On this circle, any two blocks are live at once, so that the optimum is above the max load.
    assert (good.arena, good.max_load) == (256, 192)
    check = audit(good)[2]
    assert check.passed
    assert check.detail == "optimal: the bound is not proved again; loads alone prove 192 B"
    easy = plan(Profile.from_columns(size=[64, 64], start=[0, 1], end=[1, 2], ticks=2))
    assert audit(easy)[2].detail == "optimal: the bound follows from the load of the slots"


def test_blocks_that_were_changed_after_the_plan_was_made(good):
    changed = replace(good, size=np.array([64, 128, 63]))
    assert failed(changed).keys() == {"fingerprint"}


def test_another_profile(good, profile):
    for column, value, reported in (
        ("size", [64, 128, 60], "row 2: size is 64 in the plan, 60 in the profile"),
        ("end", [2, 3, 3], "row 2: end is 4 in the plan, 3 in the profile"),
        ("stream", [1, 1, 1], "row 0: stream is 0 in the plan, 1 in the profile, and 2 more rows"),
    ):
        other = replace(profile, **{column: np.array(value)})
        assert failed(good, other)["profile"].detail.startswith(reported)
    shorter = Profile.from_columns(size=[64], start=[0], end=[2], ticks=3)
    detail = failed(good, shorter)["profile"].detail
    assert detail.startswith("blocks: 3 in the plan, 1 in the profile")


def test_plans_inside_are_checked_too(good, profile):
    other = plan(small_profile())
    both = replace(good, others=(other,), opening=replace(good, max_load=1, bound=good.arena))
    assert [(c.plan, c.name) for c in audit(both) if not c.passed] == [("opening", "max load")]
    assert audit(both, small_profile())[-1].plan == "other 1"


def test_nonsense_is_reported_and_not_summed(good):
    checks = audit(replace(good, start=np.array([0, 1, 99])))
    assert [(check.name, check.passed) for check in checks] == [("slots", False)]
