import numpy as np

from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace
from pgmo.report.blocks.framework_addresses import find_placement
from pgmo.report.page.payload import PERSISTENT, VARYING, payload
from tests.unit.report.page.test_packed import unpack
from tests.unit.report.profiles import HOSTILE, small_profile


def test_columns_say_what_the_profile_and_the_plan_say():
    profile = small_profile()
    made = plan(profile)
    header, columns = unpack(payload(profile, made))
    assert columns["size"] == profile.size.tolist()
    assert columns["start"] == profile.start.tolist()
    lives = [
        -1 if p else e - s
        for p, e, s in zip(profile.persistent, profile.end, profile.start, strict=True)
    ]
    assert columns["life"] == lives
    assert columns["offset"] == made.offset.tolist()
    assert columns["alternate"] == made.alternate.tolist()
    assert columns["flags"] == [0, VARYING, 0, 0, 0, 0, 0, PERSISTENT]
    assert header["arena"] == made.arena
    assert header["maxLoad"] == made.max_load


def test_tags_are_numbers_of_strings_and_only_those_in_use_are_there():
    profile = small_profile(tag=[3, 3, -1, 0, 0, 0, 0, 0])
    header, columns = unpack(payload(profile, plan(profile)))
    named = [[header["strings"][number] for number in row] for row in header["tags"]]
    assert len(named) == 2
    modules = [named[tag][0] if tag >= 0 else None for tag in columns["tag"]]
    assert modules == [HOSTILE, HOSTILE, None, *["Net.conv"] * 5]
    assert named[columns["tag"][3]][4:] == ["net.py:7 in forward"]


def test_streams_beyond_what_javascript_can_count_are_texts():
    profile = small_profile(stream=np.array([2**63 + 1, *[0] * 7], np.uint64))
    header, columns = unpack(payload(profile, plan(profile)))
    assert header["streams"][columns["stream"][0]] == str(2**63 + 1)


def test_lines_over_time_have_a_value_a_tick():
    profile = small_profile()
    line = np.arange(profile.ticks) * 2**21
    made = plan(profile)
    header, columns = unpack(payload(profile, made, reserved={"default": line}))
    kept = profile.size[profile.persistent].sum()
    assert columns["reserved:default"] == np.maximum(0, line - kept).tolist()
    assert columns["load"] == profile.load_curve(made.alignment).tolist()
    assert header["hasPersistent"]


def test_residents_bring_tags_of_the_trace_along():
    shared, own = Tag("Net.a", "", "forward"), Tag("", "", "", "load.py:3 in load")
    trace = Trace.from_columns(
        kind=[Event.SEGMENT_ALLOC, Event.ALLOC, Event.ALLOC],
        address=[2**20, 2**20 + 512, 2**20 + 1024],
        size=[2**20, 64, 64],
        tag=[-1, 0, 1],
        before=3,
        tags=(own, shared),
    )
    profile = Profile.from_columns(
        size=[64],
        start=[0],
        end=[1],
        ticks=1,
        tag=[0],
        tags=(shared,),
        address=[2**20],
        trace=trace,
    )
    placement = find_placement(profile, profile.address)
    header, columns = unpack(payload(profile, plan(profile), placement=placement))
    assert columns["resident:position"] == [512, 1024]
    first, second = columns["resident:tag"]
    assert second == columns["tag"][0]
    assert header["strings"][header["tags"][first][3]] == "load.py:3 in load"
