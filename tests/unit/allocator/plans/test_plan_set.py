from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.plans.plan_set import PlannedProfile, PlanSet, check_replayable
from pgmo.errors import AdapterError, PlanError
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from tests.unit.allocator.simulated import SimulatedAdapter


def planned(size):
    profile = Profile.from_columns(size=[size, 64], start=[0, 1], end=[1, 2], ticks=2)
    return PlannedProfile(plan(profile), profile)


@pytest.mark.parametrize("count", [1, 2])
def test_an_arena_that_somebody_needs_meanwhile_is_told_of(monkeypatch, count):
    adapter = SimulatedAdapter()
    adapter.request(64)
    adapter.install()
    plans = PlanSet(adapter)
    add = PlanSet._add

    def yielding(self, one):
        add(self, one)
        assert adapter.engine.yield_idle()  # as another thread's request does, when malloc refuses

    monkeypatch.setattr(PlanSet, "_add", yielding)
    both = [planned(128), planned(256)]
    if count == 1:
        plans.install(both[:1])  # it comes again with the next boundary
        assert not adapter.engine.has_arena
        return
    with pytest.raises(AdapterError, match="needed elsewhere"):
        plans.install(both)
    assert adapter.engine.statistics()["live_slot_bytes"] == 0
    monkeypatch.undo()
    plans.install(both)
    assert adapter.engine.has_arena


def test_a_plan_whose_blocks_overlap_is_refused():
    profile = Profile.from_columns(size=[64, 128], start=[0, 1], end=[2, 2], ticks=2)
    overlapping = replace(plan(profile), offset=np.zeros(2, np.int64))
    with pytest.raises(PlanError, match=r"block 0.*block 1"):
        check_replayable(overlapping, alignment=64)
