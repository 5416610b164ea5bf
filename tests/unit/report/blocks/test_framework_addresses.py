import numpy as np

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.trace import Event, Trace
from pgmo.report.blocks.framework_addresses import find_placement

MIB = 2**20
FAR = 2**40


def profile_at(address, trace=None, **changes) -> Profile:
    n = len(address)
    columns = {"size": [64] * n, "start": [0] * n, "end": [1] * n, "ticks": 1, **changes}
    return Profile.from_columns(address=address, trace=trace, **columns)


def test_no_addresses_no_placement():
    profile = profile_at([0, 0])
    assert find_placement(profile, profile.address) is None


def test_gaps_are_left_out_and_the_order_of_addresses_stays():
    profile = profile_at([FAR, 512, FAR + 64])
    placement = find_placement(profile, profile.address)
    assert placement.position.tolist() == [64, 0, 128]
    assert placement.height == 192


def test_small_gaps_stay_where_segments_are_not_known():
    profile = profile_at([512, 512 + MIB])
    assert find_placement(profile, profile.address).position.tolist() == [0, MIB]


def test_blocks_without_an_address_have_no_position():
    profile = profile_at([0, 512])
    assert find_placement(profile, profile.address).position.tolist() == [-1, 0]


def trace_of(*rows, before=0) -> Trace:
    kind, address, size = zip(*rows, strict=True)
    return Trace.from_columns(kind=kind, address=address, size=size, before=before)


def test_segments_keep_their_unused_bytes():
    trace = trace_of((Event.SEGMENT_ALLOC, MIB, 2 * MIB), (Event.SEGMENT_ALLOC, FAR, MIB), before=2)
    profile = profile_at([MIB + 512, FAR], trace)
    placement = find_placement(profile, profile.address)
    assert placement.position.tolist() == [512, 2 * MIB]
    assert placement.segments.tolist() == [[0, 2 * MIB, MIB], [2 * MIB, MIB, FAR]]
    assert placement.height == 3 * MIB


def test_neighbouring_segments_stay_apart_but_pieces_of_one_are_joined():
    trace = trace_of(
        (Event.SEGMENT_ALLOC, MIB, MIB),
        (Event.SEGMENT_ALLOC, 2 * MIB, MIB),
        (Event.SEGMENT_MAP, FAR, MIB),
        (Event.SEGMENT_MAP, FAR + MIB, MIB),
    )
    placement = find_placement(profile := profile_at([MIB], trace), profile.address)
    assert placement.segments[:, 1].tolist() == [MIB, MIB, 2 * MIB]


def test_residents_are_blocks_from_before_that_are_never_freed_and_no_rows_of_the_profile():
    trace = trace_of(
        (Event.SEGMENT_ALLOC, MIB, MIB),
        (Event.ALLOC, MIB, 64),
        (Event.ALLOC, MIB + 512, 64),
        (Event.ALLOC, MIB + 1024, 64),
        (Event.FREE_COMPLETED, MIB, 64),
        before=4,
    )
    profile = profile_at([MIB + 512], trace, end=[NEVER])
    placement = find_placement(profile, profile.address)
    assert placement.resident.tolist() == [[1024, 64, -1]]


def test_addresses_of_a_model_have_nothing_to_do_with_the_segments_of_the_trace():
    trace = trace_of((Event.SEGMENT_ALLOC, MIB, 2 * MIB), before=1)
    placement = find_placement(profile_at([0], trace), np.array([FAR]))
    assert placement.height == 64
    assert not len(placement.segments)
