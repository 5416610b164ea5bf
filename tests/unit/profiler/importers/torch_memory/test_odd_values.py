"""Tests of snapshots with impossible values, which a note counts."""

import copy

import pytest

from pgmo.errors import FileError
from pgmo.profiler.trace_blocks import live_peak
from tests.unit.profiler.importers.snapshots import Device, snapshot, step_annotations, train
from tests.unit.profiler.importers.torch_memory.reading import good, read_one

NO_LINE = 2**64 - 1
"""The line -1, as PyTorch writes it."""

DEEP = ((((),) * 9,) * 9,) * 9
VALUES = (None, NO_LINE, -(2**31) - 1, 2**100, 1.5, "x", b"x", [], {}, True, DEEP, "\ud800")


def peak(trace):
    return live_peak(trace)


def read_changed(tmp_path, change):
    saved = copy.deepcopy(good())
    change(saved)
    return read_one(tmp_path, saved)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("field", ["name", "filename", "line"])
def test_each_field_of_a_frame_may_be_odd(tmp_path, field, value):
    def change(saved):
        event = next(e for e in saved["device_traces"][0] if e["action"] == "alloc")
        event["frames"][2] = {**event["frames"][2], field: value}

    whole, own = read_one(tmp_path, good()), read_changed(tmp_path, change)
    assert own.trace.size.tolist() == whole.trace.size.tolist()
    assert peak(own.trace) == peak(whole.trace)
    allowed = field != "line" and isinstance(value, str)
    assert ("frame" in own.notes.get("odd values", "")) != allowed


@pytest.mark.parametrize("field", ["name", "filename", "line"])
def test_each_field_of_a_frame_may_be_missing(tmp_path, field):
    def change(saved):
        for event in saved["device_traces"][0]:
            event["frames"] = [{k: v for k, v in f.items() if k != field} for f in event["frames"]]

    assert peak(read_changed(tmp_path, change).trace) == peak(read_one(tmp_path, good()).trace)


def test_a_frame_without_a_line_keeps_its_file_and_function(tmp_path):
    def change(saved):
        for event in saved["device_traces"][0]:
            for frame in event["frames"]:
                frame["line"] = NO_LINE

    own = read_changed(tmp_path, change)
    assert own.trace.tags[0].file == "model.py:0 in forward"
    note = own.notes["odd values"]
    assert note.endswith(f"frames read without the value (its line is {NO_LINE})")


@pytest.mark.parametrize(
    ("field", "value", "note"),
    [
        ("addr", "x", "1 event left out ("),
        ("addr", 2**63, "1 event left out ("),
        ("addr", -1, "1 event left out (the size is "),
        ("size", -4, "1 event left out (the size is -4, "),
        ("size", 2**49, "1 event left out (the size is "),
        ("size", None, "1 event left out ("),
        ("stream", DEEP, "1 event left out ("),
        (
            "action",
            ((1, 2), 3),
            "1 event left out (the action is ((1, 2), 3), which is not a string)",
        ),
        ("time_us", "late", "1 time read without the value (it is 'late')"),
        ("time_us", NO_LINE, "1 time read without the value"),
        ("frames", 7, "1 stack read without the value (it is 7, which is not a list of frames)"),
        ("frames", [5], "1 stack read without the value (one of its entries is not a frame)"),
    ],
)
def test_an_event_with_an_odd_value(tmp_path, field, value, note):
    def change(saved):
        event = next(e for e in saved["device_traces"][0] if e["action"] == "alloc")
        event[field] = value

    own, whole = read_changed(tmp_path, change), read_one(tmp_path, good())
    assert own.notes["odd values"].startswith(note)
    assert len(own.trace) - own.trace.before == len(whole.trace) - ("left out" in note)


def test_events_keep_their_order_where_a_time_is_odd(tmp_path):
    def change(saved):
        for number, event in enumerate(saved["device_traces"][0]):
            if number % 3 == 1:
                event["time_us"] = -number

    time = read_changed(tmp_path, change).trace.time
    assert (time[1:] >= time[:-1]).all()


def test_a_file_whose_events_are_mostly_odd_is_refused(tmp_path):
    saved = good()
    for event in saved["device_traces"][0]:
        event["size"] = -1
    with pytest.raises(
        FileError, match="most events have invalid values, the first: the size is -1"
    ):
        read_one(tmp_path, saved)


@pytest.mark.parametrize(
    ("field", "value"), [("size", -1), ("state", 5), ("address", "x"), ("requested_size", "x")]
)
def test_a_block_with_an_odd_value_is_left_out(tmp_path, field, value):
    def change(saved):
        saved["device_traces"] = []
        saved["segments"][0]["blocks"][0][field] = value

    saved = good()
    saved["device_traces"] = []
    whole, own = read_one(tmp_path, saved), read_changed(tmp_path, change)
    assert own.notes["odd values"].startswith("1 block left out (its ")
    assert len(own.trace) == len(whole.trace) - 1


def test_annotations_without_a_time_are_left_out(tmp_path):
    device = Device()
    annotations, note = step_annotations(device)
    train(device, 3, between=note)
    odd = [1, {**annotations[0], "time_us": NO_LINE}, {**annotations[0], "name": DEEP}]
    own = read_one(tmp_path, snapshot(device, annotations=odd[:1] + annotations + odd[1:]))
    assert own.notes["marks"] == "the end of Optimizer.step#AdamW.step"
    why = "it is not a dictionary, or its name or its time is invalid"
    assert own.notes["odd values"] == f"3 annotations left out ({why})"
