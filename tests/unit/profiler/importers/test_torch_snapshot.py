"""PyTorch snapshots: events, what was there before, tags, marks, errors."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

from pgmo.errors import FileError
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.trace import Event
from pgmo.report.findings.history import follow
from tests.unit.profiler.importers.snapshots import (
    MIB,
    Device,
    counted,
    live_at_end,
    save,
    snapshot,
    step_annotations,
    train,
)

PAGE = 2 * MIB


def read_one(tmp_path, saved, **options):
    (own,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"), **options)
    return own


def replayed(trace):
    """Live blocks, segments and mapped pages after all events; fails on what cannot be."""
    live, segments, pages = {}, {}, set()
    rows = zip(trace.kind.tolist(), trace.address.tolist(), trace.size.tolist(), strict=True)
    for kind, address, size in rows:
        touched = range(address, address + size, PAGE)
        if kind == Event.ALLOC:
            assert address not in live
            live[address] = size
        elif kind == Event.FREE_COMPLETED:
            del live[address]
        elif kind == Event.SEGMENT_ALLOC:
            assert address not in segments
            segments[address] = size
        elif kind == Event.SEGMENT_FREE:
            assert segments.pop(address) == size
        elif kind == Event.SEGMENT_MAP:
            assert pages.isdisjoint(touched)
            pages.update(touched)
        elif kind == Event.SEGMENT_UNMAP:
            assert pages.issuperset(touched)
            pages.difference_update(touched)
    return live, segments, pages


def state_of(saved):
    segments = {s["address"]: s["total_size"] for s in saved["segments"] if not s["is_expandable"]}
    pages = set()
    for own in saved["segments"]:
        if own["is_expandable"]:
            pages.update(range(own["address"], own["address"] + own["total_size"], PAGE))
    return live_at_end(saved), segments, pages


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


def test_unknown_events_are_counted_and_told(tmp_path):
    device = Device()
    device.alloc(512)
    for action in ("snapshot", "teleport", "teleport"):
        device.events.append({**device.events[-1], "action": action})
    own = read_one(tmp_path, snapshot(device))
    assert own.notes["unknown events"] == "2 of 'teleport'; passed over"
    assert own.notes["events"] == "2"


def test_private_pools_are_told(tmp_path):
    device = Device()
    device.alloc(512)
    saved = snapshot(device)
    assert "private pools" not in read_one(tmp_path, saved).notes
    saved["segments"][0]["segment_pool_id"] = (0, 3)
    assert read_one(tmp_path, saved).notes["private pools"].startswith("1 segment of 2.00 MiB be")


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
    assert own.notes["later blocks"].startswith("1 in the segments")


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
    with pytest.raises(FileError, match="has nothing of device 2; give one of these: 0, 1"):
        read_torch_snapshot(path, 2)


def test_blocks_that_are_named_many_times_are_refused(tmp_path):
    device = Device()
    device.alloc(512)
    saved = snapshot(device)
    saved["segments"] *= 1000  # references, in the file
    with pytest.raises(FileError, match="a block is in several places"):
        read_torch_snapshot(save(saved, tmp_path / "a.pickle"))


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


def test_tags_tell_operator_phase_and_line(tmp_path):
    device = Device()
    train(device, 1)
    trace = read_one(tmp_path, snapshot(device)).trace
    made = trace.kind == Event.ALLOC
    tags = [trace.tags[tag] for tag in trace.tag[made]]
    told = [(tag.op, tag.phase, tag.file) for tag in tags]
    assert told[0] == ("aten.addmm", "forward", "model.py:54 in forward")
    assert told[-2] == ("aten.mm", "backward", "train.py:14 in <module>")
    assert told[-1] == ("aten._foreach_add", "optimizer", "train.py:15 in <module>")
    assert np.all(trace.tag[~made] == -1)


def test_blocks_from_before_have_the_tags_of_the_segments(tmp_path):
    device = Device()
    train(device, 1)
    device.forget(10_000)
    trace = read_one(tmp_path, snapshot(device)).trace
    blocks = trace.kind == Event.ALLOC
    assert {trace.tags[tag].phase for tag in trace.tag[blocks]} == {"forward", "backward"}


def test_blocks_that_are_older_than_the_stacks_have_no_tags(tmp_path):
    device = Device()
    device.alloc(4096, frames=())
    device.forget(10)
    train(device, 1)
    device.alloc(512, frames=())
    trace = read_one(tmp_path, snapshot(device)).trace
    blocks = np.flatnonzero(trace.kind == Event.ALLOC)
    assert trace.tag[blocks[0]] == -1
    assert trace.tags[trace.tag[blocks[-1]]].phase == "backward"


def test_stacks_of_what_is_alive_alone_tell_nothing_of_events_without(tmp_path):
    device = Device()  # as _record_memory_history(context="state") has it
    train(device, 1)
    for event in device.events:
        event["frames"] = []
    trace = read_one(tmp_path, snapshot(device)).trace
    assert set(trace.tag[trace.before :].tolist()) == {-1}


def test_without_frames_there_are_no_tags(tmp_path):
    device = Device()
    device.alloc(512, frames=())
    trace = read_one(tmp_path, snapshot(device)).trace
    assert trace.tags == ()
    assert set(trace.tag.tolist()) == {-1}


def test_optimizer_steps_are_marks(tmp_path):
    device = Device()
    annotations, note = step_annotations(device)
    train(device, 3, between=note)
    own = read_one(tmp_path, snapshot(device, annotations=annotations))
    marks = np.flatnonzero(own.trace.kind == Event.MARK)
    assert len(marks) == 3
    assert own.notes["marks"] == "the end of Optimizer.step#AdamW.step"
    requests = np.cumsum(own.trace.kind == Event.ALLOC)[marks]
    assert np.diff(requests).tolist() == [9, 9]


def test_a_large_snapshot_takes_little_more_memory_than_its_file(tmp_path):
    device = Device()
    train(device, 800)
    saved = snapshot(device)
    # As in real ones each event has a stack of its own, of frames that are shared.
    for event in saved["device_traces"][0]:
        event["frames"] = list(event["frames"])
    path = save(saved, tmp_path / "a.pickle")
    size = path.stat().st_size
    assert size > MIB
    del saved
    read_torch_snapshot(path)  # what is imported only once does not count
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


def good():
    device = Device()
    train(device, 1)
    return snapshot(device)


def changed(change):
    saved = copy.deepcopy(good())
    change(saved)
    return pickle.dumps(saved)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pickle.dumps({"model": 1, "epoch": 2}), "a dictionary of 'epoch', 'model', and no memory"),
        (pickle.dumps(7), "is a int, and no memory snapshot"),
        (pickle.dumps({"segments": [], "device_traces": [[]]}), "no events and no segments"),
        (pickle.dumps(good())[:-100], "is cut off"),
        (pickle.dumps(print), "asks for the global 'builtins.print'"),
        (changed(lambda s: s["device_traces"][0].append(5)), "holds things that are no events"),
        (changed(lambda s: s["device_traces"][0].append(s["device_traces"][0][0])), "twice"),
        (changed(lambda s: s["device_traces"][0][0].update(addr="x")), "value that is no number"),
        (changed(lambda s: s["device_traces"][0][0].update(size=-4)), "size is -4"),
        (changed(lambda s: s["segments"][0].update(blocks=[1])), "holds things that are no blocks"),
        (changed(lambda s: s["segments"].append(3)), "lacks something"),
        (changed(lambda s: s["segments"][0].pop("address")), "lacks something"),
        (changed(lambda s: s.update(device_traces=5)), "lacks something"),
        (changed(lambda s: s.update(external_annotations=[1])), "lacks something"),
    ],
)
def test_what_is_said_of_other_files(tmp_path, data, message):
    path = tmp_path / "a.pickle"
    path.write_bytes(data)
    with pytest.raises(FileError, match=message) as caught:
        read_torch_snapshot(path)
    assert str(caught.value).startswith(str(path))


def test_blocks_without_a_history_or_a_requested_size_are_read(tmp_path):
    saved = good()
    for segment in saved["segments"]:
        for block in segment["blocks"]:
            del block["requested_size"], block["frames"]
            block["history"] = []
    (read,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
    assert read.trace.requests
    saved["segments"][0]["blocks"][0]["history"] = "x"
    with pytest.raises(FileError, match="the history of a block is 'x', which is no list"):
        read_torch_snapshot(save(saved, tmp_path / "a.pickle"))


@pytest.mark.parametrize("name", ["action", "user_metadata"])
def test_events_whose_texts_are_none(tmp_path, name):
    path = tmp_path / "a.pickle"
    path.write_bytes(changed(lambda s: s["device_traces"][0][0].update({name: ((1, 2), 3)})))
    with pytest.raises(FileError, match=r"of an event is \(\(1, 2\), 3\), which is no text"):
        read_torch_snapshot(path)


def test_characters_that_cannot_be_printed_are_replaced(tmp_path):
    saved = good()
    for frame in saved["device_traces"][0][1]["frames"]:
        frame["name"], frame["filename"] = "f\x1b[2J\ud800", "/home/m\udcfcller/train.py"
    (read,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
    # There is a second train.py, so it has its folder, too.
    assert "m\ufffdller/train.py:0 in f\ufffd[2J\ufffd" in {tag.file for tag in read.trace.tags}


def test_names_of_any_length_are_cut(tmp_path):
    saved = good()
    for event in saved["device_traces"][0]:
        for frame in event["frames"]:
            frame["filename"] = f"/home/{'y' * 3000}.py"
            frame["name"] = "x" * 3000
    (read,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
    assert max(len(line) for tag in read.trace.tags for line in tag.stack) < 250


def with_host(*devices, first=False):
    """A snapshot with pinned memory of the host, as PyTorch 2.15 writes it."""
    host = Device(number=-1)
    kept = host.alloc(4096)
    host.free(host.alloc(70_000))
    assert kept in host.blocks
    saved = snapshot(*devices)
    part = {"host_segments": host.state(), "host_traces": host.events}
    return (part | saved if first else saved | part), host


@pytest.mark.parametrize("first", [False, True])
def test_pinned_memory_of_the_host_is_a_device_of_its_own(tmp_path, first):
    device = Device()
    train(device, 3)
    saved, host = with_host(device, first=first)
    alone = read_one(tmp_path, snapshot(device))
    own = read_one(tmp_path, saved)
    assert own.device == "cuda:0"
    assert own.trace.size.tolist() == alone.trace.size.tolist()
    assert own.notes["pinned memory of the host"] == (
        f"{len(host.events)} events; import them with --device -1"
    )
    pinned = read_one(tmp_path, saved, device=-1)
    assert pinned.device == "cpu"
    assert pinned.trace.requests == 2
    assert replayed(pinned.trace)[0] == live_at_end({"segments": host.state()})


def test_pinned_memory_alone(tmp_path):
    saved, _ = with_host(Device())
    assert read_one(tmp_path, saved).device == "cpu"


def test_events_of_the_host_in_two_places_are_refused(tmp_path):
    saved, host = with_host(Device())
    saved["device_traces"] = [host.events]
    with pytest.raises(FileError, match="in 10 places of the traces: one is there twice"):
        read_one(tmp_path, saved)


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
    whole = follow(read_one(tmp_path, snapshot(device)).trace)
    device.events[:] = [event for event in device.events if event["action"] != skipped]
    found = follow(read_one(tmp_path, snapshot(device)).trace)
    assert int(found.live().max()) == int(whole.live().max())
    assert len(found) == len(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(host_traces=5), "lacks something or has a value of another kind"),
        (lambda s: s.update(host_traces="x"), "host_traces holds things that are no events"),
        (lambda s: s["host_traces"].append(5), "host_traces holds things that are no events"),
        (lambda s: s.update(host_traces=[*s["host_traces"]] * 300), "one is there twice"),
        (lambda s: s.update(host_segments=5), "lacks something or has a value of another kind"),
        (lambda s: s.update(host_segments=[5]), "lacks something or has a value of another kind"),
        (lambda s: s["host_segments"][0].update(blocks=[1]), r"host_segments\[0\] holds things"),
        (lambda s: s["host_segments"].append(s["host_segments"][0]), "in several places"),
        (lambda s: s["host_segments"][0].update(address=1e9), "address of a segment is 1000000000"),
        (lambda s: s["host_segments"][0].update(total_size=2**70), r"must be from 0 to 2\*\*62"),
        (lambda s: s["segments"][0].update(device=-1), "the device is -1, must be from 0 to 127"),
    ],
)
def test_pinned_memory_that_is_none_is_refused(tmp_path, change, message):
    device = Device()
    device.alloc(64)
    saved, _ = with_host(device)
    change(saved)
    with pytest.raises(FileError, match=message):
        read_one(tmp_path, saved, device=-1)


def test_notes_on_tensors_are_texts(tmp_path):
    saved = good()
    note = {**saved["device_traces"][0][0], "action": "annotate", "user_metadata": ((), ())}
    saved["device_traces"][0].append(note)
    with pytest.raises(FileError, match=r"of an event is \(\(\), \(\)\), which is no text"):
        read_one(tmp_path, saved)
