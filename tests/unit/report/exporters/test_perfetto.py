import io
import json
from collections import defaultdict
from itertools import pairwise

from hypothesis import given, settings

from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.exporters.perfetto import write_perfetto
from tests.unit.profiler.examples import profiles, small_profile

NEEDED = {  # fields for each phase, by the Trace Event Format
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "C": {"name", "ph", "ts", "pid", "args"},
    "M": {"name", "ph", "pid", "args"},
}


def events(source):
    out = io.StringIO()
    write_perfetto(source, out)
    return json.loads(out.getvalue())["traceEvents"]


def of(phase, found):
    return [event for event in found if event["ph"] == phase]


def names(kind, found):
    """Return the names of processes or threads: (pid, tid) to name."""
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in of("M", found)
        if event["name"] == kind
    }


@settings(max_examples=30)
@given(profiles())
def test_it_keeps_the_rules_of_the_format(profile):
    for source in (profile, plan(profile, solver="best-fit")):
        found = events(source)
        for event in found:
            assert NEEDED[event["ph"]] <= event.keys()
        lanes = defaultdict(list)
        for event in of("X", found):
            assert 0 <= event["ts"] < event["ts"] + event["dur"] <= profile.ticks
            lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for bars in lanes.values():
            bars.sort()
            assert all(one[1] <= two[0] for one, two in pairwise(bars))
        assert lanes.keys() == names("thread_name", found).keys()


@settings(max_examples=30)
@given(profiles())
def test_the_counters_are_the_load_of_the_profile(profile):
    found = events(profile)
    titles = names("process_name", found)
    load = [0] * profile.ticks
    for (pid, _), title in titles.items():
        if title.startswith("stream"):
            value, points = (
                0,
                {e["ts"]: e["args"]["value"] for e in of("C", found) if e["pid"] == pid},
            )
            for tick in range(profile.ticks):
                value = points.get(tick, value)
                load[tick] += value
            assert points[max(points)] == 0
    assert load == profile.load_curve().tolist()


def test_streams_are_processes_and_what_has_no_place_is_another():
    titles = names("process_name", events(small_profile()))
    assert list(titles.values()) == [
        "stream 0",
        "stream 7",
        f"stream {2**64 - 1}",
        "persistent or shared: not planned",
    ]


def test_slices_name_the_origin():
    tag = Tag("Net.conv1", "aten.mm", "forward", "a.py:3 in f", ("a.py:3 in f", "b.py:9 in g"))
    profile = Profile.from_columns(
        size=[2048], start=[0], end=[2], ticks=3, tag=[0], tags=(tag,), address=[0x7F00]
    )
    found = events(profile)
    (block,) = of("X", found)
    assert (block["name"], block["cat"]) == ("aten.mm", "forward")
    assert (block["ts"], block["dur"]) == (0, 2)
    assert block["args"] == {
        "block": 0,
        "size": "2.00 KiB",
        "bytes": 2048,
        "start": 0,
        "end": 2,
        "address": "0x7f00",
        "module": "Net.conv1",
        "op": "aten.mm",
        "phase": "forward",
        "file": "a.py:3 in f",
        "stack": "a.py:3 in f\nb.py:9 in g",
    }
    assert list(names("thread_name", found).values()) == ["0x7f00"]


def test_lanes_of_a_plan_are_its_offsets():
    made = plan(small_profile())
    found = events(made)
    titles = names("thread_name", found)
    for block in of("X", found):
        offset = block["args"].get("offset")
        title = titles[block["pid"], block["tid"]]
        assert title.startswith("lane" if offset is None else "+")
    slots = {
        (e["args"]["block"], e["args"]["offset"]) for e in of("X", found) if "offset" in e["args"]
    }
    twice = [row for row in range(len(made)) if made.alternate[row] >= 0]
    assert slots == {(r, o) for r, o in enumerate(made.offset.tolist()) if o >= 0} | {
        (row, int(made.alternate[row])) for row in twice
    }
    assert twice  # the plan has blocks with two slots


def test_a_wrapping_block_is_there_at_the_end_and_at_the_beginning():
    profile = Profile.from_columns(size=[8, 8], start=[0, 3], end=[1, 6], ticks=4)
    bars = [(e["args"]["block"], e["ts"], e["dur"]) for e in of("X", events(profile))]
    assert sorted(bars) == [(0, 0, 1), (1, 0, 2), (1, 3, 1)]
