"""Tests of snapshots for PyTorch's viewer."""

import pickle

import pytest
from hypothesis import given, settings

from pgmo.cli.main import main
from pgmo.packing.planner import plan
from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import NEVER, Profile
from pgmo.report.exporters.memory_viz import memory_viz, snapshot_of
from tests.unit.profiler.examples import profiles
from tests.unit.report.profiles import small_profile


def replayed(snapshot) -> dict[int, int]:
    """Return the live blocks after all events: address to bytes.

    Blocks must not overlap, and must lie within segments.
    """
    segments, alive = [], {}
    for event in snapshot["device_traces"][0]:
        low, high = event["addr"], event["addr"] + event["size"]
        if event["action"] == "segment_alloc":
            assert all(high <= one or other <= low for one, other in segments)
            segments.append((low, high))
        elif event["action"] == "alloc":
            assert any(one <= low and high <= other for one, other in segments)
            assert all(high <= at or at + size <= low for at, size in alive.items())
            alive[low] = event["size"]
        elif event["action"] == "free_completed":
            assert alive.pop(low) == event["size"]
    return alive


@settings(max_examples=60, deadline=None)
@given(profiles())
def test_events_are_those_of_an_allocator_and_end_in_the_segments(profile):
    for source in (profile, plan(profile, effort="fast")):
        snapshot = snapshot_of(source)
        alive = replayed(snapshot)
        exported = {
            block["address"]: block["size"]
            for segment in snapshot["segments"]
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        }
        assert exported == alive
        for segment in snapshot["segments"]:
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_blocks_are_where_the_plan_puts_them():
    profile = small_profile()
    made = plan(profile)
    events = snapshot_of(made)["device_traces"][0]
    base = events[0]["addr"]
    placed = {e["addr"] - base for e in events if e["action"] == "alloc" and e["addr"] < 2 * base}
    assert placed == {int(at) for at in (*made.offset, *made.alternate) if at >= 0}


def test_frames_say_who_asked():
    events = snapshot_of(small_profile())["device_traces"][0]
    frames = next(e["frames"] for e in events if e["action"] == "alloc" and len(e["frames"]) > 1)
    assert frames == [
        {"name": "aten.convolution", "filename": "Net.conv", "line": 0},
        {"name": "forward", "filename": "net.py", "line": 7},
    ]


def test_pytorchs_own_viewer_reads_it():
    viewer = pytest.importorskip("torch.cuda._memory_viz")
    snapshot = pickle.loads(memory_viz(small_profile()))
    # 4 KiB and two slots of 512 B live into the next iteration; 2 KiB are never freed.
    assert "total_allocated: 7.0KiB" in viewer.segsum(snapshot)
    assert "alloc" in viewer.trace(snapshot)
    # The viewer downloads a script for flame graphs. The test reads the input of the script.
    lines = viewer.memory(snapshot, format_flamegraph=lambda text: text)
    assert "Net.conv" in lines or "net.py" in lines
    assert "active_allocated" in viewer.segments(snapshot, format_flamegraph=lambda text: text)
    assert "<html>" in viewer.trace_plot(snapshot)
    assert "<html>" in viewer.segment_plot(snapshot)


def test_pgmo_reads_it_back(tmp_path):
    columns = {"size": [512, 1024, 512], "start": [0, 1, 2], "end": [2, 3, 3], "ticks": 3}
    profile = Profile.from_columns(**columns)
    path = tmp_path / "a.pickle"
    path.write_bytes(memory_viz(profile))
    trace = read_file(path)[0].trace
    again = profile_of(trace, whole=True)
    assert again.size.tolist() == [512, 1024, 512]
    assert again.max_load() == profile.max_load()


def test_blocks_that_are_never_freed_live_at_the_end():
    profile = Profile.from_columns(size=[512, 600], start=[0, 1], end=[2, NEVER], ticks=2)
    assert list(replayed(snapshot_of(profile)).values()) == [600]


def test_an_empty_profile_is_an_empty_snapshot():
    empty = Profile.from_columns(size=[], start=[], end=[], ticks=0)
    assert snapshot_of(empty)["segments"] == []


def test_the_command_writes_it(tmp_path, capsys):
    path = tmp_path / "small.pgmoprof"
    small_profile().save(path)
    assert main(["export", str(path), "--to", "memory-viz"]) == 0
    assert pickle.loads((tmp_path / "small.memory-viz.pickle").read_bytes())["segments"]
    assert "memory_viz" in capsys.readouterr().err
    assert main(["export", str(path), "--to", "memory-viz", "-o", "-"]) != 0
