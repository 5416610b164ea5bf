from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.heuristics import Heuristics
from pgmo.allocator.plans import loop_planning
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.session.options import Options
from pgmo.packing.planner import plan, plan_profile
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile

PROFILE = Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=2)


def test_a_loop_is_kept_waiting_as_little_as_can_be(monkeypatch):
    asked = []

    def noting(profile, options):
        asked.append(options.effort)
        return plan_profile(profile, options)

    monkeypatch.setattr(loop_planning, "plan_profile", noting)
    made = make_plan(PROFILE, Options().planning(32))
    assert (made.alignment, made.arena) == (32, 96)
    assert asked == ["fast"]


def test_ctrl_c_is_meant_for_the_loop(monkeypatch):
    interrupted = replace(plan(PROFILE), interrupted=True)
    monkeypatch.setattr(loop_planning, "plan_profile", lambda profile, options: interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_plan(PROFILE, PlanningOptions(alignment=64))


def hard(streams):
    """Return blocks that the packers do not place within half a percent of their bound."""
    numbers = np.random.default_rng(7)
    size = numbers.integers(1, 64, 300) << 16
    start = np.arange(300)
    end = np.minimum(300, start + numbers.integers(2, 60, 300))
    return Profile.from_columns(size=size, start=start, end=end, stream=start % streams, ticks=300)


def test_plans_of_several_streams_are_searched_beyond_the_packers():
    options = PlanningOptions(effort="fast", alignment=512)
    two = hard(2)
    alone = plan_profile(two, options)
    assert make_plan(two, options).arena < alone.arena
    # A single stream need not compensate for another one.
    one = hard(1)
    assert make_plan(one, options).arena == plan_profile(one, options).arena


def test_the_order_of_streams_alone_is_no_reason_to_search(monkeypatch):
    """Two streams are never busy at the same time, so every plan needs both of their arenas."""
    calls = []
    monkeypatch.setattr(
        loop_planning, "plan_profile", lambda *given: calls.append(given) or plan_profile(*given)
    )
    profile = Profile.from_columns(
        size=[1 << 20, 1 << 20], start=[0, 1], end=[1, 2], stream=[0, 1], ticks=2
    )
    made = make_plan(profile, PlanningOptions(effort="fast", alignment=512))
    assert made.arena == 2 << 20
    assert made.gap > Heuristics().spare_share
    assert len(calls) == 1
