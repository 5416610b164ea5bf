"""Where memory comes when it is touched, iterations are served while they are recorded."""

import pytest

from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


@pytest.fixture
def lazy(adapter):
    adapter.lazy = True
    return adapter


def test_the_third_iteration_comes_from_slots(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 3)
        last = session.history[-1]
        assert last.phase.value == "record"
        assert last.hit_bytes_rate > 0.5  # nobody knows yet how long gradients live
        loop.finish()


def test_where_lengths_differ_the_fourth_does(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        for scale in (8, 6, 7, 5):
            loop.scale = scale
            run(loop, session, 1)
        last = session.history[-1]
        assert last.phase.value == "record"
        assert last.hit_bytes_rate > 0.7
        loop.finish()


def test_an_arena_that_is_resident_at_once_is_not_taken_for_it(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 3)
        assert not adapter.arenas[0]
        loop.finish()
