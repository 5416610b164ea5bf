"""Blocks that are born in slots and never die."""

from itertools import pairwise

import pytest

from pgmo.allocator import tuning
from pgmo.allocator.session.learning.held_slots import HeldSlots
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


@pytest.fixture
def lazy(adapter):
    adapter.lazy = True
    return adapter


def hold_slots(loop, session, adapter):
    """An iteration in whose middle a log keeps something that has an activation's size."""
    kept = []

    def keep():
        kept.append(adapter.request(max(loop.layers)))

    layers, loop.layers = loop.layers, loop.layers[:3]
    run(loop, session, 1, extra=keep)
    loop.layers = layers
    assert adapter.served(kept[0])
    return kept[0]


def test_plans_leave_an_arena_in_which_such_a_block_lies(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 8)
        before = len(lazy.arenas[0])
        kept = hold_slots(loop, session, lazy)
        run(loop, session, 2 + tuning.HELD_ITERATIONS)
        assert session.history[-1].hit_bytes_rate == 1
        assert len(lazy.arenas[0]) == before + 1
        assert not lazy.returned[before:]  # it lives there
        lazy.free(kept)
        loop.finish()


def test_where_an_arena_is_not_lazy_it_stays(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 8)
        before = len(adapter.arenas[0])
        kept = hold_slots(loop, session, adapter)
        run(loop, session, 4)
        assert len(adapter.arenas[0]) == before
        adapter.free(kept)
        loop.finish()


class Statistics:
    def __init__(self, rate, **misses):
        self.hit_bytes_rate = rate
        self.misses = dict.fromkeys(("late", "occupied", "unknown", "too_large"), 0) | misses


def test_another_arena_that_does_not_help_is_tried_less_often():
    held, bad = HeldSlots(), Statistics(0.7, late=30)
    answers = [held.need_another_arena(bad) for _ in range(20)]
    times = [at for at, answer in enumerate(answers) if answer]
    assert len(times) >= 2
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[0] > times[0] + 1


def test_one_that_helps_is_tried_as_soon_the_next_time():
    held, bad, good = HeldSlots(), Statistics(0.7, late=30), Statistics(1.0)
    for _ in range(3):
        answers = [held.need_another_arena(bad) for _ in range(tuning.HELD_ITERATIONS)]
        assert answers[-1]
        assert not held.need_another_arena(good)


def test_what_the_plan_does_not_know_is_not_held():
    held = HeldSlots()
    assert not any(held.need_another_arena(Statistics(0.2, unknown=50)) for _ in range(10))
