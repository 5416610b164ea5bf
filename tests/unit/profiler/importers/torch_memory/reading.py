"""Readers of made-up snapshots, and a replay of the traces that they yield."""

import copy
import pickle

from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.trace import Event
from tests.unit.profiler.importers.snapshots import MIB, Device, live_at_end, save, snapshot, train

PAGE = 2 * MIB


def read_one(tmp_path, saved, **options):
    (own,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"), **options)
    return own


def replayed(trace):
    """Return live blocks, segments and mapped pages after all events; fail on impossible events."""
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


def good():
    """Return a valid snapshot of one step."""
    device = Device()
    train(device, 1)
    return snapshot(device)


def changed(change):
    """Return the pickle of the snapshot `good()` after a call of `change` on it."""
    saved = copy.deepcopy(good())
    change(saved)
    return pickle.dumps(saved)
