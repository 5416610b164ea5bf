"""Tests that the work of reading grows linearly with the events in a file."""

import pickle
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.profiler.importers.cupy_log import read_cupy_log
from pgmo.profiler.importers.earlier_blocks import Rows, _earlier_pages
from pgmo.profiler.importers.rmm_log import read_rmm_log
from pgmo.profiler.importers.torch_memory.restricted_pickle import PickleError, load
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.ranges import Ranges
from pgmo.profiler.trace import Event
from tests.unit.profiler.importers.snapshots import Device, save, snapshot, train
from tests.unit.profiler.importers.steps import steps


def cupy(count):
    line = '{"hook":"alloc","device_id":0,"mem_size":1,"mem_ptr":%d}\n'
    return "".join(line % (2 * number) for number in range(count))


def rmm(count):
    header = ",".join(["Action,Pointer,Size", *(f"c{number}" for number in range(count))])
    return "\n".join([header, *["allocate,0x40,8"] * count])


def snapshot_of(count, path):
    device = Device()
    train(device, count // 50)
    return lambda: read_torch_snapshot(save(snapshot(device), path))


def items(count):
    data = b"\x80\x04](" + b"N\x94" * count + b"}\x8c\x05abcdeK\x01s" * count + b"e."
    return lambda: load(data, lambda found: found)


def pages(count):
    # Each range contains all ranges before it.
    rows = [(int(Event.SEGMENT_MAP), count - n, 2 * n + 1, 0, -1) for n in range(count)]
    seen = Rows.make(rows)
    return lambda: _earlier_pages(seen, Rows.make([]))


def log_of(reader, text, path):
    path.write_text(text)
    return lambda: reader(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda count, path: log_of(read_cupy_log, cupy(count), path),
        lambda count, path: log_of(read_rmm_log, rmm(count), path),
        snapshot_of,
        lambda count, _: items(count),
        lambda count, _: pages(count),
    ],
    ids=["cupy", "rmm", "snapshot", "items", "pages"],
)
def test_the_work_grows_like_the_file(tmp_path, make):
    work = [steps(make(count, tmp_path / "file")) for count in (1000, 2000)]
    assert work[1] < 2.5 * work[0]


@pytest.mark.parametrize(
    "piece", [b"]", b"}", b"(", b"N\x85", b"]\x94", b"}\x94", b"(N", b"K\x01t"]
)
def test_containers_take_memory_like_the_file(piece):
    data = b"\x80\x04](" + piece * (200_000 // len(piece)) + b"e."
    tracemalloc.start()
    try:
        with pytest.raises(PickleError):
            load(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * len(data)


def test_whole_snapshots_have_far_fewer_containers_than_are_allowed():
    device = Device()
    train(device, 30)
    saved = snapshot(device)
    for event in saved["device_traces"][0]:
        event["frames"] = []  # the shortest event possible
        event["addr"] = event["size"] = event["time_us"] = 1
    dictionaries = sum(
        [len(saved["device_traces"][0]), *(1 + len(one["blocks"]) for one in saved["segments"])]
    )
    for protocol in (2, 4, 5):
        data = pickle.dumps(saved, protocol)
        assert load(data)
        assert 2 * dictionaries < len(data) // 8 // 2  # each dictionary has a list of frames


def test_no_pickle_is_deeper_than_it_may_be():
    def nested(levels):
        value = []
        for _ in range(levels - 1):
            value = [value]
        return value

    assert load(pickle.dumps(nested(60), 4))
    for value in (nested(70), tuple(nested(70)), {"a": nested(70)}):
        with pytest.raises(PickleError, match="more than 64 deep"):
            load(pickle.dumps(value, 4))
    shared = nested(40)
    with pytest.raises(PickleError, match="more than 64 deep"):
        deep = shared
        for _ in range(40):
            deep = [shared, deep]
        load(pickle.dumps(deep, 4))
    wide = []
    for _ in range(50):
        wide = [wide, wide]
    assert load(pickle.dumps(wide, 4))  # 50 lists, with 2**50 paths


def test_keys_of_one_hash_are_refused():
    same = {(2**61 - 1) * number: 0 for number in range(1, 10)}
    with pytest.raises(PickleError, match="the most is 63"):
        load(pickle.dumps(same, 4))
    assert load(pickle.dumps({-(2**63): 1, 2**63 - 1: 2}, 4)) == {-(2**63): 1, 2**63 - 1: 2}


def plain_replace(taken, address, size):
    gone = [own for own in taken if own[0] < address + size and address < sum(own)]
    taken[:] = sorted([own for own in taken if own not in gone] + [(address, size)])
    return gone


SIZES = st.one_of(st.just(1), st.integers(1, 80))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 200), SIZES), min_size=10, max_size=60))
def test_ranges_are_those_of_the_plain_way(rows):
    ranges, plain = Ranges(), []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pgmo.profiler.ranges._MOST", 4)  # so that lists are split and joined
        for address, size in rows:
            assert ranges.replace(address, size) == plain_replace(plain, address, size)


def plain_pages(seen, final):
    """Return the pages that were mapped before the history, found page by page."""
    state = {}
    for rows, always in ((seen, False), (final, True)):
        for kind, low, size in zip(rows.kind, rows.address, rows.size, strict=True):
            for page in range(low, low + size):
                state.setdefault(page, always or kind == Event.SEGMENT_UNMAP)
    return {page for page, mapped in state.items() if mapped}


PAGES = st.lists(
    st.tuples(
        st.sampled_from([Event.SEGMENT_MAP, Event.SEGMENT_UNMAP]),
        st.integers(0, 30),
        st.integers(0, 8),
    ),
    max_size=12,
)


@settings(max_examples=100)
@given(PAGES, PAGES)
def test_pages_at_the_beginning_are_those_of_the_plain_way(seen, final):
    first = Rows.make([(int(kind), low, size, 0, -1) for kind, low, size in seen])
    last = Rows.make([(int(Event.SEGMENT_MAP), low, size, 0, -1) for _, low, size in final])
    made = _earlier_pages(first, last)
    pages = [
        page
        for low, size in zip(made.address.tolist(), made.size.tolist(), strict=True)
        for page in range(low, low + size)
    ]
    assert len(set(pages)) == len(pages)
    assert set(pages) == plain_pages(first, last)
