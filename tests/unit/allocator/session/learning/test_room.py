"""How many pages an arena would have above what windows take: counted from an engine's figures."""

from types import SimpleNamespace

import pytest

from pgmo.allocator.plans.page_costs import PAGE
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.room import Room
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile


def room(held, occupied, **adapter):
    """Of an engine between two iterations; in pages."""
    now = {"peak_pages_held": held * PAGE, "pages_occupied": occupied * PAGE}
    engine = SimpleNamespace(statistics=lambda: now)
    return Room(SimpleNamespace(engine=engine, **{"pages": True, "seat": 0, **adapter}))


def planned(*blocks, streams=None):
    """Blocks of so many pages, from a request to another, of four requests."""
    sizes, starts, ends = map(list, zip(*blocks, strict=True))
    profile = Profile.from_columns(
        size=[round(size * PAGE) for size in sizes],
        start=starts,
        end=ends,
        stream=streams or [0] * len(sizes),
        ticks=4,
    )
    return PlannedProfile(plan(profile), profile)


TEMPORARY = planned((4, 0, 2), (3, 1, 3))
"""Seven pages, none of which are alive between two iterations."""


def missing(plans, *, held=20, occupied):
    return room(held, occupied).missing(plans)


@pytest.mark.parametrize(("occupied", "pages"), [(10, 0), (13, 0), (14, 0), (15, 2), (18, 5)])
def test_holes_between_what_lives_are_missing_but_for_one_page(occupied, pages):
    assert missing([TEMPORARY], occupied=occupied) == pages


def test_what_lives_now_and_has_a_slot_the_next_time_counts_once():
    with_gradients = planned((4, 0, 2), (3, 1, 3), (2, 3, 5))  # alive at the end
    assert missing([with_gradients], occupied=16) == 0
    assert missing([with_gradients], occupied=17) == 2


def test_the_largest_plan_counts_and_a_part_of_a_page_is_one():
    small = planned((1, 0, 2))
    assert missing([small, TEMPORARY], occupied=15) == 2
    assert missing([small], occupied=15) == 0
    assert missing([planned((1.5, 0, 2))], occupied=20) == 2


def test_half_a_percent_more_than_windows_may_be_taken():
    assert missing([TEMPORARY], held=1000, occupied=999) == 0
    assert missing([TEMPORARY], held=1000, occupied=1000) == 2


def test_arenas_of_streams_that_take_turns_have_pages_in_common():
    turns = [(4, 0, 1), (4, 2, 3)]
    assert missing([planned(*turns, streams=[0, 7])], occupied=17) == 0
    assert missing([planned(*turns, streams=[0, 7])], occupied=18) == 2


@pytest.mark.parametrize("adapter", [{"pages": False}, {"seat": 1}], ids=str)
def test_without_pages_and_beside_another_session_there_is_always_room(adapter):
    """The other's arena idles while this one has its turn."""
    assert room(20, 18, **adapter).missing([TEMPORARY]) == 0
