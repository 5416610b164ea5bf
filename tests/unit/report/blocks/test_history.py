import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.trace import Event, Trace
from pgmo.report.blocks.history import ALIVE, follow
from tests.unit.report.loops import train

KINDS = (Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED, Event.MARK)


def followed(trace: Trace) -> dict[int, list[int]]:
    """Return for each request the rows of its requested and completed free, event by event."""
    ends: dict[int, list[int]] = {}
    at: dict[int, tuple[int, int]] = {}  # address: (block, row of the requested free)
    both = Event.FREE_COMPLETED in trace.kind
    for row in range(len(trace)):
        kind, address = int(trace.kind[row]), int(trace.address[row])
        if kind == Event.ALLOC:
            ends[row] = [ALIVE, ALIVE]
            at[address] = row, ALIVE
        elif kind in (Event.FREE_REQUESTED, Event.FREE_COMPLETED) and address in at:
            block, asked = at[address]
            if asked == ALIVE:
                ends[block] = [row, row]
                at[address] = block, row
                if kind == Event.FREE_COMPLETED:
                    del at[address]
            else:
                ends[block][1] = row if kind == Event.FREE_COMPLETED else asked
                del at[address]
    for block, asked in at.values():
        if asked != ALIVE and both:
            ends[block][1] = ALIVE  # another stream uses it
    return ends


def alive_after(history, row):
    return (history.born <= row) & ((history.gone == ALIVE) | (history.gone > row))


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 9)), max_size=40)
)
def test_blocks_end_as_when_events_are_followed_one_by_one(rows):
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    kind, address, size = (list(column) for column in columns)
    trace = Trace.from_columns(kind=kind, address=address, size=size)
    history = follow(trace)
    expected = followed(trace)
    assert history.born.tolist() == list(expected)
    assert history.gone.tolist() == [let_go for let_go, _ in expected.values()]
    assert history.released.tolist() == [released for _, released in expected.values()]
    for row, live in enumerate(history.live().tolist()):
        assert live == history.size[alive_after(history, row)].sum()
    assert history.iterations == kind.count(Event.MARK)


def test_iterations_are_counted_from_the_first_mark():
    history = follow(train(3))
    assert np.unique(history.iteration).tolist() == [-1, 0, 1, 2]
    assert history.iteration[0] == -1
    assert history.iterations == 3
