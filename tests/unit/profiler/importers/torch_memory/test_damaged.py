"""Tests of messages about files that are damaged or no snapshots."""

import pickle

import pytest

from pgmo.errors import FileError
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from tests.unit.profiler.importers.snapshots import Device, save, snapshot
from tests.unit.profiler.importers.torch_memory.reading import changed, good


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pickle.dumps({"model": 1, "epoch": 2}), "a dictionary of 'epoch', 'model', not a memory"),
        (pickle.dumps(7), "is a int, not a memory snapshot"),
        (pickle.dumps({"segments": [], "device_traces": [[]]}), "no events and no segments"),
        (pickle.dumps(good())[:-100], "is cut off"),
        (pickle.dumps(print), "asks for the global 'builtins.print'"),
        (changed(lambda s: s["device_traces"][0].append(5)), "has entries that are not events"),
        (
            changed(lambda s: s["device_traces"][0].append(s["device_traces"][0][0])),
            "each event must be in one trace, once",
        ),
        (
            changed(lambda s: s["segments"][0].update(blocks=[1])),
            "has entries that are not blocks",
        ),
        (changed(lambda s: s["segments"].append(3)), "missing or invalid value"),
        (changed(lambda s: s["segments"][0].pop("address")), "missing or invalid value"),
        (changed(lambda s: s.update(device_traces=5)), "missing or invalid value"),
    ],
)
def test_invalid_snapshots_are_refused_with_the_cause(tmp_path, data, message):
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


def test_blocks_that_are_named_many_times_are_refused(tmp_path):
    device = Device()
    device.alloc(512)
    saved = snapshot(device)
    saved["segments"] *= 1000  # the file has 999 references, not copies
    with pytest.raises(FileError, match="the segments list a block more than once"):
        read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
