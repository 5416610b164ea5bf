"""Layout of several streams in one range of offsets."""

from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.plans.layout import Layout
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.planner import plan as make_plan
from pgmo.profiler.profile import NEVER, Profile


def planned(*blocks, ticks=None):
    """Return a plan of blocks (bytes, stream) that live for one tick each, one after the other."""
    sizes, streams = zip(*blocks, strict=True)
    start = np.arange(len(blocks))
    return make_plan(
        Profile.from_columns(
            size=sizes, start=start, end=start + 1, stream=streams, ticks=ticks or len(blocks)
        )
    )


def test_each_stream_is_as_large_as_the_largest_plan_needs_it():
    layout = Layout([planned((90, 0), (30, 1)), planned((40, 0), (70, 1))])
    assert layout.ranges == {0: range(128), 1: range(128, 256)}
    assert layout.size == 256
    assert Layout([planned((90, 0), (30, 1))]).ranges == {0: range(128), 1: range(128, 192)}


def test_every_plan_finds_its_slots_in_the_range_of_their_stream():
    plans = [planned((900, 0), (300, 1), (64, 2)), planned((64, 2), (400, 0), (700, 1))]
    layout = Layout(plans)
    for plan in plans:
        offset, alternate = layout.place(plan)
        assert np.all(alternate == UNPLANNED)
        for place, size, stream in zip(offset, plan.size, plan.stream, strict=True):
            own = layout.ranges[int(stream)]
            assert own.start <= place
            assert place + size <= own.start + len(own)


def test_distances_inside_of_a_stream_stay_and_the_plan_itself_is_not_changed():
    profile = Profile.from_columns(
        size=[64, 64, 128, 128], start=[0, 1, 2, 3], end=[4] * 4, stream=[0, 1, 0, 1], ticks=4
    )
    plan = make_plan(profile)
    before = plan.offset.copy()
    offset, _ = Layout([planned((4096, 0)), plan]).place(plan)
    assert np.array_equal(plan.offset, before)
    for stream in (0, 1):
        rows = plan.stream == stream
        assert len(set((offset - before)[rows])) == 1
    assert offset[plan.stream == 1].min() == 4096


@pytest.fixture
def two_turns():
    """Return a plan with a block that outlives a period, on the second stream of the layout."""
    profile = Profile.from_columns(
        size=[64, 256, 32], start=[0, 1, 2], end=[1, 5, NEVER], stream=[0, 5, 5], ticks=3
    )
    return make_plan(profile)


def test_both_slots_of_a_block_with_two_turns_move_together(two_turns):
    assert two_turns.alternate[1] != UNPLANNED
    layout = Layout([planned((1024, 0)), two_turns])
    offset, alternate = layout.place(two_turns)
    assert layout.ranges[5] == range(1024, 1536)
    assert sorted((offset[1], alternate[1])) == [1024, 1280]
    assert alternate[0] == UNPLANNED


@pytest.mark.parametrize(
    ("there", "needed", "covers"),
    [
        ([(128, 0)], [(128, 0)], True),
        ([(128, 0)], [(64, 0)], True),
        ([(64, 0)], [(128, 0)], False),
        ([(128, 0), (64, 1)], [(64, 1)], True),
        ([(128, 0)], [(64, 1)], False),
        ([(128, 0), (64, 1)], [(64, 0), (128, 1)], False),  # enough in sum, but not on each stream
        ([(64, 0)], [], True),
    ],
)
def test_covers(there, needed, covers):
    layout = Layout([planned(*there)])
    assert layout.covers(Layout([planned(*needed)] if needed else [])) is covers


def spilling(*blocks, resident):
    """Return a plan of blocks (bytes, stream, offset) that all live at the same time."""
    sizes, streams, offsets = zip(*blocks, strict=True)
    ticks = len(blocks)
    profile = Profile.from_columns(
        size=sizes, start=range(ticks), end=[ticks] * ticks, stream=streams, ticks=ticks
    )
    arena = max(offset + size for size, _, offset in blocks)
    return replace(make_plan(profile), offset=offsets, arena=arena, resident=resident)


def test_spilled_slots_lie_behind_all_of_the_devices_memory():
    one = spilling((64, 0, 0), (64, 1, 64), (128, 0, 128), (64, 1, 256), resident=128)
    other = spilling((192, 0, 0), (64, 0, 192), resident=192)
    layout = Layout([one, other])
    assert layout.ranges == {0: range(192), 1: range(192, 256)}
    assert layout.spilled == {0: range(256, 384), 1: range(384, 448)}
    assert (layout.resident, layout.size, layout.spill_size) == (256, 448, 192)
    assert layout.place(one)[0].tolist() == [0, 192, 256, 384]
    assert layout.place(other)[0].tolist() == [0, 256]
    assert layout.covers(Layout([one]))
    assert not Layout([one]).covers(layout)
    assert not Layout([planned((512, 0))]).covers(Layout([other]))


def test_a_stream_that_is_spilled_wholly_has_an_arena_all_the_same():
    layout = Layout([spilling((64, 3, 0), (64, 3, 64), resident=0)])
    assert layout.ranges == {3: range(64)}
    assert layout.spilled == {3: range(64, 192)}
