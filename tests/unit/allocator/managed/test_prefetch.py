"""Memory that is moved before an iteration."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.allocator.managed.prefetch import moves
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.planner import plan
from pgmo.profiler.profile import NEVER, Profile


def bytes_of(ranges):
    return {byte for begin, end in ranges for byte in range(begin, end)}


def slots(made):
    for row in range(len(made)):
        for offset in (int(made.offset[row]), int(made.alternate[row])):
            if offset != UNPLANNED:
                yield row, offset, offset + int(made.size[row])


@st.composite
def small_profiles(draw):
    """Draw a profile of small blocks, whose bytes a test can count one by one."""
    rows = draw(
        st.lists(st.tuples(st.integers(1, 30), st.integers(0, 24)), min_size=1, max_size=12)
    )
    size, life = np.array(rows).T
    start = np.arange(len(rows))
    life = np.minimum(life, 2 * len(rows))
    return Profile.from_columns(
        size=size, start=start, end=np.where(life == 0, NEVER, start + life), ticks=len(rows)
    )


@settings(max_examples=80, deadline=None)
@given(small_profiles(), st.integers(0, 300))
def test_as_much_as_there_is_room_for_in_the_order_of_need(profile, room):
    made = plan(profile, alignment=1, effort="fast")
    due = moves(made, room, page=1)
    there, back = bytes_of(due.to_device), bytes_of(due.to_host)
    assert len(there) == sum(end - begin for begin, end in due.to_device) <= room
    assert len(back) == sum(end - begin for begin, end in due.to_host)
    assert not there & back
    alive = {
        byte
        for row, begin, end in slots(made)
        for byte in range(begin, end)
        if 0 < -made.start[row] % made.ticks < made.end[row] - made.start[row]
    }
    assert back == alive - there
    if room >= made.arena:
        assert there == {byte for _, begin, end in slots(made) for byte in range(begin, end)}


def made_by_hand():
    """Return a plan of four adjacent slots; the first one wraps, and ends last."""
    profile = Profile.from_columns(
        size=[10, 10, 10, 10], start=[0, 1, 2, 3], end=[3, 4, 4, 7], ticks=4
    )
    return plan(profile, alignment=1)


def test_births_and_ends_show_when_a_slot_is_needed():
    made = made_by_hand()
    at = {row: (begin, end) for row, begin, end in slots(made)}
    assert moves(made, 10, page=10).to_device == (at[0],)
    assert moves(made, 10, page=10).to_host == (at[3],)  # live until tick 3
    assert bytes_of(moves(made, 20, page=10).to_device) == bytes_of((at[0], at[1]))
    assert moves(made, 5, page=10).to_device == ()


def test_pages_that_touch_become_one_range():
    made = made_by_hand()
    everything = moves(made, made.arena, page=10)
    assert everything.to_device == ((0, made.arena),)
    assert everything.to_host == ()


def test_a_page_moves_as_a_whole():
    made = made_by_hand()
    assert moves(made, 2 * made.arena, page=16).to_device == ((0, 48),)


def test_nothing_is_planned():
    profile = Profile.from_columns(size=[8], start=[0], end=[-1], ticks=1)
    empty = moves(plan(profile, alignment=1), 100, page=1)
    assert empty.to_device == empty.to_host == ()
