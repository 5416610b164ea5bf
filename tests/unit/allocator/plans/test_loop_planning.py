from dataclasses import replace

import pytest

from pgmo.allocator.plans import loop_planning
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.session.options import Options
from pgmo.packing.planner import plan, plan_profile
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile

PROFILE = Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=2)


def test_a_loop_is_kept_waiting_as_little_as_can_be_unless_told_otherwise(monkeypatch):
    asked = []

    def noting(profile, options):
        asked.append(options.effort)
        return plan_profile(profile, options)

    monkeypatch.setattr(loop_planning, "plan_profile", noting)
    for options in ({}, {"effort": "best"}):
        made = make_plan(PROFILE, Options(**options).planning(32))
        assert (made.alignment, made.arena) == (32, 96)
    assert asked == ["fast", "best"]


def test_ctrl_c_is_meant_for_the_loop(monkeypatch):
    interrupted = replace(plan(PROFILE), interrupted=True)
    monkeypatch.setattr(loop_planning, "plan_profile", lambda profile, options: interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_plan(PROFILE, PlanningOptions(alignment=64))
