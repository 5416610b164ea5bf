"""When a plan pays, against the windows that have served so far."""

from types import SimpleNamespace

import pytest

from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.backoff import Backoff
from pgmo.allocator.session.learning.installation import PAGE, InstallationRule
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
    adapter = SimpleNamespace(engine=engine, pages=pages, session_index=session_index)
    options = SimpleNamespace(budget=budget, save_directory=save)
    return InstallationRule(SimpleNamespace(adapter=adapter, options=options))


def test_a_plan_that_needs_no_more_than_windows_held_pays():
    assert rule(occupied=90, held=100).objection([planned(10 * PAGE)], repeats=True) == ""
    assert rule(occupied=90, held=99).objection([planned(10 * PAGE)], repeats=True) == ""


def test_pages_beyond_what_windows_held_are_an_objection():
    text = rule(occupied=90, held=98).objection([planned(10 * PAGE)], repeats=True)
    assert text.startswith("with its arena, the program would take 2 pages more")


def test_five_in_a_thousand_may_be_added():
    assert rule(occupied=995, held=1000).objection([planned(10 * PAGE)], repeats=True) == ""
    assert rule(occupied=997, held=1000).objection([planned(10 * PAGE)], repeats=True)


def test_streams_take_the_pages_that_their_order_makes_them_take():
    """Requests follow each other, but only a wait keeps a stream from running before its turn."""
    blocks = {"size": [40 * PAGE, 20 * PAGE], "start": [0, 1], "end": [1, 2]}
    waits = Order(tick=[1, 1], kind=[4, 5], stream=[0, 7], target=[-1, 0], back=[0, 0])
    for order, pages in ((None, 40), (waits, 60)):
        profile = Profile.from_columns(**blocks, stream=[0, 7], ticks=2, order=order)
        plans = [PlannedProfile(make_plan(profile), profile)]
        assert rule(held=pages).objection(plans, repeats=True) == ""
        assert rule(held=pages - 2).objection(plans, repeats=True)


def test_windows_that_move_pages_all_the_time_justify_some_more():
    """As where streams lag behind each other. Lengths that vary justify nothing."""
    one = rule(occupied=90, held=90)
    one.served_by_windows(10)
    assert one.objection([planned(10 * PAGE)], repeats=True) == ""
    assert "pages more" in one.objection([planned(10 * PAGE)], repeats=False)


def test_gradients_are_in_the_arena_once():
    """They occupy pages already at the end of an iteration, and the next one frees them."""
    gradient = planned(2 * PAGE, 10 * PAGE, start=[0, 1], end=[2, 3])
    assert rule(occupied=100, held=100).objection([gradient], repeats=True)
    assert rule(occupied=98, held=100).objection([gradient], repeats=True) == ""


def test_windows_have_to_have_moved_as_many_pages_as_are_free_between_iterations():
    one = rule(occupied=91, held=100)
    assert "only 0 pages were remapped in 0 iterations" in one.unpaid()
    one.served_by_windows(4)
    assert "only 4 pages were remapped in 1 iterations" in one.unpaid()
    one.served_by_windows(5)
    assert one.unpaid() == ""


@pytest.mark.parametrize("wanted", [{"budget": "1 GiB"}, {"save": "plans"}, {"pages": False}])
def test_a_plan_that_is_wanted_in_any_case_pays(wanted):
    one = rule(occupied=99, held=99, **wanted)
    assert one.unpaid() == ""
    assert one.objection([planned(10 * PAGE)], repeats=False) == ""


def test_after_a_plan_that_was_removed_windows_have_to_move_twice_as_many_pages():
    one, plans = rule(occupied=90, held=100), [planned(10 * PAGE)]
    one.remove()
    one.served_by_windows(19)
    assert "only 19 pages" in one.objection(plans, repeats=True)
    one.served_by_windows(1)
    assert one.objection(plans, repeats=True) == ""


def test_sessions_that_take_turns_share_their_arenas():
    assert (
        rule(occupied=90, held=90, session_index=1).objection([planned(10 * PAGE)], repeats=True)
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
