from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.plans.plan_set import PlannedProfile, PlanSet, check_replayable
from pgmo.errors import PlanError
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from tests.unit.allocator.simulated import SimulatedAdapter


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
        adapter.engine.yield_idle()  # as a request of another thread does if malloc fails

    monkeypatch.setattr(PlanSet, "_add", yielding)
    both = [planned(128), planned(256)]
    plans.install(both)
    assert not adapter.engine.has_arena
    monkeypatch.undo()
    plans.install(both)
    assert adapter.engine.has_arena


def test_a_plan_whose_blocks_overlap_is_refused():
    profile = Profile.from_columns(size=[64, 128], start=[0, 1], end=[2, 2], ticks=2)
    overlapping = replace(plan(profile), offset=np.zeros(2, np.int64))
    with pytest.raises(PlanError, match=r"block 0.*block 1"):
        check_replayable(overlapping, alignment=64)


def test_plans_that_are_set_aside_serve_nothing_while_their_blocks_live():
    adapter = SimulatedAdapter()
    adapter.install()
    plans = PlanSet(adapter)
    profile = Profile.from_columns(size=[128, 64], start=[0, 1], end=[2, 2], ticks=2)
    plans.install([PlannedProfile(plan(profile), profile)])
    first = adapter.request(128)
    assert adapter.served(first)
    plans.set_aside()
    assert adapter.engine.has_arena
    assert not adapter.served(adapter.request(64))
    adapter.free(first)
