"""Tests of the events of PyTorch's snapshots: order, earlier blocks, missing frees, devices."""

import pickle
import tracemalloc

import pytest

from pgmo.errors import FileError
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.trace import Event, PrivateSegment
from pgmo.profiler.trace_blocks import live_peak
from tests.unit.profiler.importers.snapshots import (
    MIB,
    Device,
    counted,
    live_at_end,
    save,
    snapshot,
    train,
)
from tests.unit.profiler.importers.torch_memory.reading import read_one, replayed, state_of


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("forgotten", [0, 1, 7, 40, 95, 10_000])
def test_the_beginning_is_rebuilt_so_that_the_end_is_right(tmp_path, expandable, forgotten):
    device = Device(expandable=expandable)
    train(device, 3)
    device.empty_cache()
    train(device, 2)
    device.forget(forgotten)
    saved = snapshot(device)
    trace = read_one(tmp_path, saved).trace
    assert replayed(trace) == state_of(saved)
    assert len(trace) - trace.before == len(device.events)
    kinds = trace.kind[: trace.before].tolist()
    assert kinds == sorted(kinds, reverse=True)  # segments, then blocks


def test_events_keep_their_order_sizes_streams_and_times(tmp_path):
    device = Device()
    first = device.alloc(1000, stream=7)
    device.alloc(24)
    device.free(first)
    trace = read_one(tmp_path, snapshot(device)).trace
    seen = trace.kind >= 0
    assert [Event(kind).name.lower() for kind in trace.kind] == [
        event["action"] for event in device.events
    ]
    assert trace.size[seen].tolist() == [event["size"] for event in device.events]
    assert trace.stream.tolist() == [7, 7, 0, 0, 7, 7]
    assert trace.time.tolist() == [0, 10, 20, 30, 40, 50]
    assert trace.before == 0


def test_a_block_that_waits_for_a_stream_lives_until_it_is_free(tmp_path):
    device = Device()
    waiting, known = device.alloc(512), device.alloc(512)
    device.free(waiting, complete=False)
    device.forget(10_000)
    device.complete(waiting)
    device.free(known, complete=False)
    saved = snapshot(device)
    trace = read_one(tmp_path, saved).trace
    assert trace.kind.tolist() == [3, 0, 0, 2, 1]
    assert replayed(trace) == state_of(saved)


def test_failed_requests_are_kept_with_what_was_free(tmp_path):
    device = Device()
    device.alloc(512)
    device.out_of_memory(5 * 2**30, device_free=2**30)
    own = read_one(tmp_path, snapshot(device))
    failed = own.trace.kind == Event.OOM
    assert own.trace.size[failed].tolist() == [5 * 2**30]
    assert own.trace.address[failed].tolist() == [0]
    assert own.notes["out of memory"] == "5.00 GiB with 1.00 GiB free on the device"


def test_unknown_events_are_counted_and_reported(tmp_path):
    device = Device()
    device.alloc(512)
    for action in ("snapshot", "teleport", "teleport"):
        device.events.append({**device.events[-1], "action": action})
    own = read_one(tmp_path, snapshot(device))
    assert own.notes["unknown events"] == "2 of 'teleport'; ignored"
    assert own.notes["events"] == "2"


def test_private_pools_are_reported(tmp_path):
    device = Device()
    device.alloc(512)
    saved = snapshot(device)
    assert "private pools" not in read_one(tmp_path, saved).notes
    saved["segments"][0]["segment_pool_id"] = (0, 3)
    own = read_one(tmp_path, saved)
    assert own.notes["private pools"].startswith("2.00 MiB of graphs and pools")
    address = saved["segments"][0]["address"]
    assert own.trace.private == (PrivateSegment((0, 3), address, 2 * MIB),)
    saved["segments"][0]["segment_pool_id"] = ("a", 3)
    with pytest.raises(FileError, match="a pool id is 'a'"):
        read_one(tmp_path, saved)


def test_missing_and_stray_frees_are_repaired(tmp_path):
    device = Device()
    for _ in range(3):
        device.free(device.alloc(512))
    frees = [e for e in device.events if e["action"] == "free_completed"]
    device.events[:] = [e for e in device.events if e["action"] not in ("free_requested",)]
    device.events.remove(frees[0])
    device.events.append(dict(frees[1]))
    own = read_one(tmp_path, snapshot(device))
    assert replayed(own.trace)[0] == {}
    assert own.notes["missing frees"].startswith("1 added")
    assert own.notes["stray frees"].startswith("1 of blocks")


def test_blocks_made_after_the_last_event_are_left_out(tmp_path):
    device = Device()
    device.free(device.alloc(4096))
    events = list(device.events)
    device.alloc(4096)
    device.events[:] = events
    own = read_one(tmp_path, snapshot(device))
    assert replayed(own.trace)[0] == {}
    assert own.notes["later blocks"].startswith("1 left out")


def test_devices_are_kept_apart(tmp_path):
    first, second = Device(0), Device(1)
    train(first, 2)
    train(second, 3)
    path = save(snapshot(first, second), tmp_path / "a.pickle")
    both = read_torch_snapshot(path)
    assert [own.device for own in both] == ["cuda:0", "cuda:1"]
    assert [own.trace.requests for own in both] == [
        counted(device.events)["alloc"] for device in (first, second)
    ]
    assert [own.trace.device for own in read_torch_snapshot(path, 1)] == [1]
    with pytest.raises(FileError, match="has no memory of device 2; choose from 0, 1"):
        read_torch_snapshot(path, 2)


def test_the_older_form_is_the_segments_alone(tmp_path):
    device = Device()
    train(device, 1)
    saved = snapshot(device)
    for segment in saved["segments"]:
        for block in segment["blocks"]:
            del block["address"]
            if block["state"] == "active_awaiting_free":
                block["state"] = "active_pending_free"
    trace = read_one(tmp_path, saved["segments"]).trace
    assert len(trace) == trace.before
    assert replayed(trace)[0] == live_at_end(snapshot(device))


def test_settings_are_text(tmp_path):
    settings = {"max_split_size": -1, "roundup_power2_divisions": {"1": 0, "2": 4}}
    device = Device(expandable=True)
    device.alloc(512)
    trace = read_one(tmp_path, snapshot(device, settings=settings)).trace
    assert dict(trace.settings) == {
        "expandable_segments": "True",
        "max_split_size": "-1",
        "roundup_power2_divisions": "[1:0,2:4]",
    }


def test_a_large_snapshot_takes_little_more_memory_than_its_file(tmp_path):
    device = Device()
    train(device, 800)
    saved = snapshot(device)
    # In real snapshots, each event has a list of its own, of shared frames.
    for event in saved["device_traces"][0]:
        event["frames"] = list(event["frames"])
    path = save(saved, tmp_path / "a.pickle")
    size = path.stat().st_size
    assert size > MIB
    del saved
    read_torch_snapshot(path)  # the first call imports modules, whose memory does not count
    tracemalloc.start()
    try:
        read_torch_snapshot(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        pickle.loads(path.read_bytes())
        ordinary = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * size < ordinary


def test_notes_on_tensors_and_what_allocators_tag_are_no_events(tmp_path):
    device = Device()
    train(device, 2)
    plain = read_one(tmp_path, snapshot(device)).trace
    note = {**device.events[0], "action": "annotate", "user_metadata": "step 7"}
    for event in device.events:
        event |= {"pool_id": (0, 0), "internal_metadata": "mallocWithAddress"}
    device.events[5:5] = [note, {**note, "user_metadata": "step 8"}]
    own = read_one(tmp_path, snapshot(device))
    assert own.trace.kind.tolist() == plain.kind.tolist()
    assert "unknown events" not in own.notes


@pytest.mark.parametrize("skipped", ["free_requested", "free_completed", "segment_alloc"])
def test_actions_that_were_not_recorded(tmp_path, skipped):
    device = Device()
    train(device, 4)
    whole = read_one(tmp_path, snapshot(device)).trace
    device.events[:] = [event for event in device.events if event["action"] != skipped]
    found = read_one(tmp_path, snapshot(device)).trace
    assert live_peak(found) == live_peak(whole)
    assert len(found.blocks) == len(whole.blocks)
