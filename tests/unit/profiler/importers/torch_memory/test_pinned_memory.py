"""Tests of pinned memory in PyTorch's snapshots, which is imported as a device of its own."""

import pytest

from pgmo.errors import FileError
from tests.unit.profiler.importers.snapshots import Device, live_at_end, snapshot, train
from tests.unit.profiler.importers.torch_memory.reading import read_one, replayed


def with_host(*devices, first=False):
    """Return a snapshot with pinned memory, as PyTorch 2.15 writes it, and the host's `Device`."""
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
        f"{len(host.events)} events; import this memory with --device -1"
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
    with pytest.raises(FileError, match="the traces have 10 entries for 5 events"):
        read_one(tmp_path, saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(host_traces=5), "has a missing or invalid value"),
        (lambda s: s.update(host_traces="x"), "host_traces has entries that are not events"),
        (lambda s: s["host_traces"].append(5), "host_traces has entries that are not events"),
        (
            lambda s: s.update(host_traces=[*s["host_traces"]] * 300),
            "each event must be in one trace",
        ),
        (lambda s: s.update(host_segments=5), "has a missing or invalid value"),
        (lambda s: s.update(host_segments=[5]), "has a missing or invalid value"),
        (lambda s: s["host_segments"][0].update(blocks=[1]), r"host_segments\[0\] has entries"),
        (lambda s: s["host_segments"].append(s["host_segments"][0]), "list a block more than once"),
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
