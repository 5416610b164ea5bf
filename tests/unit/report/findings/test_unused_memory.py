"""Tests of the parts of unused reserved bytes, and of their sum."""

import pytest

from pgmo.profiler.trace import Event, PrivateSegment, Trace
from pgmo.report.findings.fragmentation import find_fragmentation
from pgmo.report.findings.unused_memory import (
    ReservedRange,
    TakenRange,
    UnusedMemory,
    split_unused,
    unused_in_snapshot,
)

MIB = 1 << 20


def test_parts_of_segments():
    segments = [
        ReservedRange(0, 100, 0, False),  # a hole of 40 bytes between two blocks, and two ends
        ReservedRange(200, 260, 0, False),  # empty
        ReservedRange(300, 380, 7, False),  # a segment of another stream
        ReservedRange(400, 450, 0, True),  # a segment of a private pool
    ]
    blocks = [
        TakenRange(10, 30, 18),
        TakenRange(70, 90, 20),
        TakenRange(310, 320, 10),
        TakenRange(90, 95, 0),
    ]
    found = split_unused(segments, blocks, 0)
    assert found == UnusedMemory(
        between=40, ends=15, segments=60, streams=70, pools=50, waiting=5, rounding=2
    )
    assert found.total == sum(one.end - one.start for one in segments) - 18 - 20 - 10


def test_words_leave_small_parts_out():
    parts = UnusedMemory(between=3 * MIB, ends=MIB - 1, waiting=5 * MIB).parts()
    assert parts == [
        "5.00 MiB in freed blocks that another stream may use",
        "3.00 MiB between live blocks",
    ]


@pytest.mark.parametrize("expandable", [False, True])
def test_a_trace_at_its_reserved_peak(expandable):
    take = Event.SEGMENT_MAP if expandable else Event.SEGMENT_ALLOC
    give = Event.SEGMENT_UNMAP if expandable else Event.SEGMENT_FREE
    rows = [
        (take, 2 * MIB, 8 * MIB, 0),
        (take, 10 * MIB, 2 * MIB, 0),
        (take, 32 * MIB, 4 * MIB, 5),
        (take, 64 * MIB, 2 * MIB, 0),
        (Event.ALLOC, 2 * MIB, MIB, 0),
        (Event.ALLOC, 4 * MIB, MIB, 0),
        (Event.FREE_REQUESTED, 4 * MIB, MIB, 0),
        (Event.ALLOC, 6 * MIB, MIB, 0),
        (Event.ALLOC, 8 * MIB, MIB, 0),
        (give, 32 * MIB, 4 * MIB, 5),
        (Event.FREE_COMPLETED, 4 * MIB, MIB, 0),
    ]
    kind, address, size, stream = zip(*rows, strict=True)
    trace = Trace.from_columns(
        kind=kind,
        address=address,
        size=size,
        stream=stream,
        private=(PrivateSegment((1, 0), 64 * MIB, 2 * MIB),),
    )
    found = find_fragmentation(trace)
    assert found.unused.total == found.peak_reserved - found.live_then
    # Adjacent mapped ranges are one segment, so that the second range is its end.
    assert found.unused == UnusedMemory(
        between=3 * MIB,
        ends=3 * MIB if expandable else MIB,
        segments=0 if expandable else 2 * MIB,
        streams=4 * MIB,
        pools=2 * MIB,
        waiting=MIB,
    )


def test_a_snapshot_of_torch():
    def segment(address, size, blocks, *, stream=0, pool=(0, 0), device=0):
        return {
            "device": device,
            "address": address,
            "total_size": size,
            "stream": stream,
            "segment_pool_id": pool,
            "blocks": [
                {"size": size, "requested_size": asked, "state": state}
                for size, asked, state in blocks
            ],
        }

    segments = [
        segment(
            0,
            100,
            [
                (20, 18, "active_allocated"),
                (30, 0, "inactive"),
                (10, 10, "active_awaiting_free"),
                (10, 10, "active_allocated"),
                (30, 0, "inactive"),
            ],
        ),
        segment(200, 50, [(50, 0, "inactive")], stream=3),
        segment(300, 40, [(40, 0, "inactive")], pool=(0, 1)),
        segment(400, 40, [(40, 0, "inactive")], device=1),
    ]
    assert unused_in_snapshot(segments, 0) == UnusedMemory(
        between=30, ends=30, streams=50, pools=40, waiting=10, rounding=2
    )
