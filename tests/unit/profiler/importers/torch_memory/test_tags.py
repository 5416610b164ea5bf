"""Tests of tags from the stacks of PyTorch's snapshots: operator, phase and line."""

import numpy as np

from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.trace import Event
from tests.unit.profiler.importers.snapshots import Device, save, snapshot, train
from tests.unit.profiler.importers.torch_memory.reading import good, read_one


def test_tags_have_operator_phase_and_line(tmp_path):
    device = Device()
    train(device, 1)
    trace = read_one(tmp_path, snapshot(device)).trace
    made = trace.kind == Event.ALLOC
    tags = [trace.tags[tag] for tag in trace.tag[made]]
    reported = [(tag.op, tag.phase, tag.file) for tag in tags]
    assert reported[0] == ("aten.addmm", "forward", "model.py:54 in forward")
    assert reported[-2] == ("aten.mm", "backward", "train.py:14 in <module>")
    assert reported[-1] == ("aten._foreach_add", "optimizer", "train.py:15 in <module>")
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


def test_stacks_of_live_blocks_alone_do_not_tag_events(tmp_path):
    device = Device()  # as with _record_memory_history(context="state")
    train(device, 1)
    for event in device.events:
        event["frames"] = []
    trace = read_one(tmp_path, snapshot(device)).trace
    assert set(trace.tag[trace.before :].tolist()) == {-1}


def test_characters_that_cannot_be_printed_are_replaced(tmp_path):
    saved = good()
    for frame in saved["device_traces"][0][1]["frames"]:
        frame["name"], frame["filename"] = "f\x1b[2J\ud800", "/home/m\udcfcller/train.py"
    (read,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
    # The tag has the folder, because there is a second train.py.
    assert "m\ufffdller/train.py:0 in f\ufffd[2J\ufffd" in {tag.file for tag in read.trace.tags}
