"""Tests of the pairing of requests and frees."""

from pgmo.profiler.iterations.traces.block_ends import NOT_FREED, pair_blocks
from pgmo.profiler.trace import Event, Trace

A, R, C, M = Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED, Event.MARK


def blocks_of(*rows):
    """Return the blocks of events (kind, address)."""
    kind, address = zip(*rows, strict=True)
    return pair_blocks(Trace.from_columns(kind=kind, address=address, size=[8] * len(rows)))


def paired(*rows):
    """Return (row, row of the requested free, row of the completed free) of each block."""
    blocks = blocks_of(*rows)
    return list(zip(blocks.row.tolist(), blocks.let_go.tolist(), blocks.gone.tolist(), strict=True))


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


def test_a_block_that_waits_at_the_end_is_not_gone():
    rows = [(A, 64), (A, 128), (R, 64), (C, 64), (R, 128), (A, 192)]
    assert paired(*rows)[1] == (1, 4, NOT_FREED)
    assert blocks_of(*rows).shared.tolist() == [False, True, False]
    only_requests = [(kind, at) for kind, at in rows if kind != C]
    assert paired(*only_requests)[1] == (1, 3, 3)


def test_requests_of_nothing_are_left_out():
    trace = Trace.from_columns(kind=[A, A, R], address=[0, 64, 64], size=[0, 8, 8])
    assert pair_blocks(trace).row.tolist() == [1]


def test_an_empty_trace():
    assert len(pair_blocks(Trace.from_columns(kind=[], address=[], size=[]))) == 0
