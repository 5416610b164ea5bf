"""Arenas that have room to grow in, where memory comes when it is touched; and little growth."""

import pytest

from pgmo.errors import AdapterError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


@pytest.fixture
def lazy(adapter):
    adapter.lazy = True
    return adapter


def lengths(loop, session, *scales):
    for scale in scales:
        loop.scale = scale
        run(loop, session, 1)


def test_the_longest_iteration_so_far_is_served_where_the_others_were(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        lengths(loop, session, 2, 3, 2, 3, 2, 3, 2, 4)
        assert session.history[-1].hit_bytes_rate > 0.95
        lengths(loop, session, 2, 4)
        assert session.history[-1].hit_bytes_rate == 1
        assert len(lazy.arenas[0]) == 1
        loop.finish()


def test_without_that_it_takes_another_arena(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        lengths(loop, session, 2, 3, 2, 3, 2, 3, 2, 4)
        assert session.history[-1].hit_bytes_rate < 0.5
        assert len(adapter.arenas[0]) == 2
        loop.finish()


def test_where_addresses_are_few_an_arena_is_no_larger_than_its_plan(lazy, monkeypatch):
    take, refused = lazy.take_arena, []

    def take_little(size, stream):
        if not refused:
            refused.append(size)
            raise AdapterError("too few addresses")
        return take(size, stream)

    monkeypatch.setattr(lazy, "take_arena", take_little)
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 6)
        assert session.history[-1].hit_rate == 1
        ((_, size),) = lazy.arenas[0]
        assert session.plan.arena <= size < refused[0]
        loop.finish()


def test_while_slots_serve_the_framework_keeps_nothing(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 6)
        assert lazy.sparing
        loop.finish()
    assert not lazy.sparing


def test_one_small_request_that_grows_is_no_other_program(adapter):
    loop = Loop(adapter, [1 << 20] * 8)
    with open_session(adapter) as session:
        for number in range(70):
            size = int(16 * 1.1**number)  # beyond what plans leave, and more often than is learned
            run(loop, session, 1, extra=lambda size=size: adapter.free(adapter.request(size)))
        assert [one.phase.value for one in session.history].count("record") < 8
        assert session.history[-1].hit_bytes_rate > 0.999
        loop.finish()
