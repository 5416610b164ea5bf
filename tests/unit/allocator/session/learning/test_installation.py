"""Conditions under which a plan pays, compared with windows."""

from types import SimpleNamespace

import pytest

from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.backoff import Backoff
from pgmo.allocator.session.learning.installation import PAGE, InstallationRule
from pgmo.allocator.session.options import Options
from pgmo.packing.planner import plan as make_plan
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.profile import Profile


def planned(*sizes, start=None, end=None, ticks=None):
    ticks = ticks or len(sizes)
    profile = Profile.from_columns(
        size=sizes, start=start or range(ticks), end=end or [ticks] * ticks, ticks=ticks
    )
    return PlannedProfile(make_plan(profile), profile)


def rule(occupied=0, held=0, *, pages=True, session_index=0, budget=None, save=None):
    engine = SimpleNamespace(
        statistics=lambda: {"pages_occupied": occupied * PAGE, "peak_pages_held": held * PAGE}
    )
    adapter = SimpleNamespace(
        engine=engine, pages=pages, session_index=session_index, requested_bytes=1 << 40
    )
    state = SimpleNamespace(adapter=adapter, options=Options(budget=budget, save=save))
    return InstallationRule(state)


def test_a_plan_that_needs_no_more_than_windows_held_pays():
    assert rule(occupied=90, held=100).choose([planned(10 * PAGE)], repeats=True)[1] == ""
    assert rule(occupied=90, held=99).choose([planned(10 * PAGE)], repeats=True)[1] == ""


def test_pages_beyond_what_windows_held_are_an_objection():
    text = rule(occupied=90, held=98).choose([planned(10 * PAGE)], repeats=True)[1]
    assert text.startswith("with a plan, the program would take 2 pages more")


def test_five_in_a_thousand_may_be_added():
    assert rule(occupied=995, held=1000).choose([planned(10 * PAGE)], repeats=True)[1] == ""
    assert rule(occupied=997, held=1000).choose([planned(10 * PAGE)], repeats=True)[1]


STREAMS = {"size": [40 * PAGE, 20 * PAGE], "start": [0, 1], "end": [1, 2], "stream": [0, 7]}
"""Columns of two streams, one after the other in the order of requests: 40 pages at once."""


def plan_of_streams(order=None, **columns):
    profile = Profile.from_columns(**STREAMS | columns, ticks=2, order=order)
    return [PlannedProfile(make_plan(profile), profile)]


def wait_of_the_second_stream():
    """Return the order in which only the second stream waits: 60 pages at once."""
    return Order(tick=[1, 1], kind=[4, 5], stream=[0, 7], target=[-1, 0], back=[0, 0])


def test_streams_share_pages_along_events_if_there_are_enough():
    plans = plan_of_streams(wait_of_the_second_stream())
    assert rule(held=60).choose(plans, repeats=True) == (plans, "")


def test_streams_share_pages_by_requests_if_events_would_take_more_than_windows():
    plans = plan_of_streams(wait_of_the_second_stream())
    for held in (58, 40):
        (chosen,), objection = rule(held=held).choose(plans, repeats=True)
        assert not objection
        assert not chosen.follows_events
        assert chosen.plan is plans[0].plan
    assert rule(held=38).choose(plans, repeats=True)[0] == []


def test_streams_without_known_events_share_pages_by_requests():
    plans = plan_of_streams()
    assert rule(held=40).choose(plans, repeats=True) == (plans, "")
    assert rule(held=38).choose(plans, repeats=True)[0] == []


def test_blocks_that_live_at_once_share_no_page():
    """The second block, of 20 pages, lives into the next iteration."""
    plans = plan_of_streams(end=[2, 3])
    assert rule(occupied=20, held=60).choose(plans, repeats=True) == (plans, "")
    assert rule(occupied=20, held=58).choose(plans, repeats=True)[0] == []


def test_windows_that_move_pages_all_the_time_justify_some_more():
    """Streams that lag cause such moves. Moves because of varying lengths justify no pages."""
    one = rule(occupied=90, held=90)
    one.served_by_windows(11)
    assert one.choose([planned(10 * PAGE)], repeats=True)[1] == ""
    assert "pages more" in one.choose([planned(10 * PAGE)], repeats=False)[1]
    assert "pages more" in one.choose([planned(11 * PAGE)], repeats=True)[1]
    one.served_by_windows(8)
    assert "pages more" in one.choose([planned(10 * PAGE)], repeats=True)[1]


def test_gradients_are_in_the_arena_once():
    """Gradients occupy pages at the end of an iteration, and the next iteration frees them."""
    gradient = planned(2 * PAGE, 10 * PAGE, start=[0, 1], end=[2, 3])
    assert rule(occupied=100, held=100).choose([gradient], repeats=True)[1]
    assert rule(occupied=98, held=100).choose([gradient], repeats=True)[1] == ""


def test_windows_have_to_have_moved_four_times_the_pages_that_are_free_between_iterations():
    one = rule(occupied=91, held=100)
    assert "only 0 pages were remapped in 0 iterations" in one.unpaid()
    one.served_by_windows(4)
    assert "only 4 pages were remapped in 1 iterations" in one.unpaid()
    one.served_by_windows(31, iterations=10)
    assert "only 35 pages were remapped in 11 iterations" in one.unpaid()
    one.served_by_windows(1)
    assert one.unpaid() == ""


@pytest.mark.parametrize("wanted", [{"budget": "1 GiB"}, {"save": "plans"}, {"pages": False}])
def test_a_plan_that_is_wanted_in_any_case_pays(wanted):
    one = rule(occupied=99, held=99, **wanted)
    assert one.unpaid() == ""
    assert one.choose([planned(10 * PAGE)], repeats=False)[1] == ""


def test_after_a_plan_that_was_removed_windows_have_to_move_twice_as_many_pages():
    one, plans = rule(occupied=90, held=100), [planned(10 * PAGE)]
    one.remove()
    one.served_by_windows(79)
    assert "only 79 pages" in one.choose(plans, repeats=True)[1]
    one.served_by_windows(1)
    assert one.choose(plans, repeats=True)[1] == ""


@pytest.mark.parametrize("extra", [-PAGE, PAGE])
def test_after_a_pause_whose_iterations_differ_a_plan_waits_as_if_recorded_ones_differed(extra):
    """A few equal iterations may lie between iterations of another structure."""
    one, plans = rule(occupied=90, held=100), [planned(10 * PAGE)]
    one.begin_pause()
    one.served_by_windows(39, iterations=7)
    one._state.adapter.requested_bytes += 7 * 10 * PAGE
    assert one.choose(plans, repeats=True)[1] == ""
    one._state.adapter.requested_bytes += extra
    assert "only 39 pages" in one.choose(plans, repeats=True)[1]
    one.served_by_windows(1)
    assert one.choose(plans, repeats=True)[1] == ""


def test_sessions_that_take_turns_share_their_arenas():
    assert (
        rule(occupied=90, held=90, session_index=1).choose([planned(10 * PAGE)], repeats=True)[1]
        == ""
    )


def test_pauses_without_recording_double_up_to_a_limit():
    backoff, lengths = Backoff(1, 64), []
    for _ in range(8):
        backoff.begin()
        lengths.append(backoff.left)
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 64]
    backoff.count(60)
    assert backoff.left == 4
    backoff.count(5)
    assert backoff.left == 0
    backoff.forget()
    backoff.begin()
    assert backoff.left == 1
