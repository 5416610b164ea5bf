"""Tests of the pairing of requests and frees."""

from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import NOT_FREED, live_bytes

A, R, C, M = Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED, Event.MARK


def blocks_of(*rows):
    """Return the blocks of events (kind, address)."""
    kind, address = zip(*rows, strict=True)
    return Trace.from_columns(kind=kind, address=address, size=[8] * len(rows)).blocks


def paired(*rows):
    """Return (row, row of the requested free, row of the completed free) of each block."""
    blocks = blocks_of(*rows)
    columns = (blocks.row, blocks.freed, blocks.reusable)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_addresses_are_used_again():
    rows = [(A, 64), (A, 128), (R, 64), (C, 64), (A, 64), (R, 128), (C, 128)]
    assert paired(*rows) == [(0, 2, 3), (1, 5, 6), (4, NOT_FREED, NOT_FREED)]


def test_either_free_alone_is_enough():
    assert paired((A, 64), (R, 64), (A, 64), (C, 64)) == [(0, 1, 1), (2, 3, 3)]


def test_requests_while_a_block_waits_make_it_shared():
    rows = [(A, 64), (A, 128), (R, 64), (R, 128), (A, 192), (C, 64), (M, 0), (C, 128)]
    assert blocks_of(*rows).shared.tolist() == [True, True, False]
    rows = [(A, 64), (R, 64), (M, 0), (C, 64), (A, 64)]
    assert blocks_of(*rows).shared.tolist() == [False, False]


def test_a_block_that_waits_at_the_end_is_not_reusable():
    rows = [(A, 64), (A, 128), (R, 64), (C, 64), (R, 128), (A, 192)]
    assert paired(*rows)[1] == (1, 4, NOT_FREED)
    assert blocks_of(*rows).shared.tolist() == [False, True, False]
    only_requests = [(kind, at) for kind, at in rows if kind != C]
    assert paired(*only_requests)[1] == (1, 3, 3)


def test_requests_of_nothing_are_left_out():
    trace = Trace.from_columns(kind=[A, A, R], address=[0, 64, 64], size=[0, 8, 8])
    assert trace.blocks.row.tolist() == [1]


def test_an_empty_trace():
    trace = Trace.from_columns(kind=[], address=[], size=[])
    assert len(trace.blocks) == 0
    assert live_bytes(trace).tolist() == []


def followed(trace: Trace) -> dict[int, list[int]]:
    """Return for each request the rows of its requested and completed free, event by event."""
    ends: dict[int, list[int]] = {}
    at: dict[int, tuple[int, int]] = {}  # address: (block, row of the requested free)
    both = C in trace.kind
    for row in range(len(trace)):
        kind, address = int(trace.kind[row]), int(trace.address[row])
        if kind == A:
            ends[row] = [NOT_FREED, NOT_FREED]
            at[address] = row, NOT_FREED
        elif kind in (R, C) and address in at:
            block, asked = at[address]
            if asked == NOT_FREED:
                ends[block] = [row, row]
                at[address] = block, row
                if kind == C:
                    del at[address]
            else:
                ends[block][1] = row if kind == C else asked
                del at[address]
    for block, asked in at.values():
        if asked != NOT_FREED and both:
            ends[block][1] = NOT_FREED  # another stream uses it
    return ends


def alive_after(blocks, row):
    return (blocks.row <= row) & ((blocks.freed == NOT_FREED) | (blocks.freed > row))


@given(
    st.lists(
        st.tuples(st.sampled_from((A, R, C, M)), st.integers(1, 3), st.integers(1, 9)), max_size=40
    )
)
def test_blocks_end_as_when_events_are_followed_one_by_one(rows):
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    kind, address, size = (list(column) for column in columns)
    trace = Trace.from_columns(kind=kind, address=address, size=size)
    blocks, expected = trace.blocks, followed(trace)
    assert blocks.row.tolist() == list(expected)
    assert blocks.freed.tolist() == [freed for freed, _ in expected.values()]
    assert blocks.reusable.tolist() == [reusable for _, reusable in expected.values()]
    for row, live in enumerate(live_bytes(trace).tolist()):
        assert live == blocks.size[alive_after(blocks, row)].sum()
    assert trace.iterations == kind.count(M)


def test_iterations_are_counted_from_the_first_mark():
    blocks = blocks_of((A, 64), (M, 0), (A, 128), (A, 192), (M, 0), (R, 64), (M, 0), (A, 64))
    assert blocks.iteration.tolist() == [-1, 0, 0, 2]


def test_blocks_from_before_the_recording_come_first():
    kind, address = (A, A, A, R, A), (64, 128, 192, 64, 64)
    trace = Trace.from_columns(kind=kind, address=address, size=[8] * 5, before=2)
    assert trace.blocks.before == 2
    assert trace.blocks.requests.tolist() == [2, 4]
    assert trace.blocks.occupied(3).tolist() == [False, True, True, False]
