import pytest

from pgmo.profiler.trace import Event, Trace
from pgmo.report.findings.fragmentation import find_fragmentation
from tests.unit.report.loops import Loop


def test_a_hole_between_blocks_and_one_behind_them():
    loop = Loop()
    loop.segment(512, 8192)
    first, second, third = loop.alloc(1024), loop.alloc(2048), loop.alloc(1000)
    loop.free(second)
    loop.free(first)
    loop.free(third)
    found = find_fragmentation(loop.trace())
    assert (found.peak_reserved, found.peak_live) == (8192, 1024 + 2048 + 1000)
    assert (found.holes, found.hole_bytes, found.largest_hole) == (1, 4096, 4096)
    assert found.waste == pytest.approx(1 - 4072 / 8192)


def test_holes_are_measured_where_most_is_live_and_waste_where_most_is_reserved():
    loop = Loop()
    loop.segment(512, 4096)
    small, large = loop.alloc(512), loop.alloc(1024)
    loop.alloc(2048)
    loop.free(small)
    loop.segment(1 << 20, 1 << 16)
    loop.free(large)
    found = find_fragmentation(loop.trace())
    assert (found.peak_live, found.reserved_then) == (3584, 4096)
    assert (found.segments, found.holes, found.largest_hole) == (1, 1, 512)
    assert (found.peak_reserved, found.live_then) == (4096 + (1 << 16), 1024 + 2048)


def test_mapped_pages_grow_one_segment_and_unmapped_ones_leave_it():
    mapped, unmapped = Event.SEGMENT_MAP, Event.SEGMENT_UNMAP
    trace = Trace.from_columns(
        kind=[mapped, mapped, Event.ALLOC, mapped, unmapped, Event.ALLOC],
        address=[4096, 6144, 4096, 8192, 8192, 6144],
        size=[2048, 2048, 2048, 2048, 2048, 1024],
    )
    found = find_fragmentation(trace)
    assert (found.peak_reserved, found.reserved_then, found.segments) == (6144, 4096, 1)
    assert (found.holes, found.largest_hole) == (1, 1024)


def test_a_place_that_another_stream_still_uses_is_no_hole():
    rows = [
        *[(Event.SEGMENT_ALLOC, 512, 4096), (Event.ALLOC, 512, 512), (Event.ALLOC, 1024, 1024)],
        *[(Event.FREE_REQUESTED, 512, 512), (Event.ALLOC, 2048, 2560)],
        (Event.FREE_COMPLETED, 512, 512),
    ]
    # In the second case, the use by another stream does not end before the trace does.
    for last in (rows[-1], (Event.FREE_COMPLETED, 1024, 1024)):
        kind, address, size = zip(*rows[:-1], last, strict=True)
        found = find_fragmentation(Trace.from_columns(kind=kind, address=address, size=size))
        assert (found.peak_live, found.holes) == (1024 + 2560, 0)


def test_a_trace_without_segments_has_no_fragmentation():
    loop = Loop()
    loop.alloc(8)
    assert find_fragmentation(loop.trace()) is None
