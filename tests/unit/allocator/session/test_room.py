"""Arenas that have room to grow in, where memory comes when it is touched; and little growth."""

from types import SimpleNamespace

import pytest

from pgmo.allocator.adapters import torch_cpu
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.state import SessionState
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
        if not size & (size - 1):  # with room it is a power of two
            refused.append(size)
            raise AdapterError("too few addresses")
        return take(size, stream)

    monkeypatch.setattr(lazy, "take_arena", take_little)
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 6)
        assert session.history[-1].hit_rate == 1
        *_, (_, size) = lazy.arenas[0]
        assert session.plan.arena <= size < refused[-1]
        loop.finish()


def test_only_what_is_recorded_changes_how_the_framework_allocates(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 1)
        assert lazy.sparing
        run(loop, session, 5)
        assert session.history[-1].hit_rate == 1
        assert not lazy.sparing
        loop.finish()


def test_addresses_that_are_limited_are_not_spent_on_room(monkeypatch):
    pytest.importorskip("torch")
    adapter = torch_cpu.torch_cpu()
    for limited, strictly in ((False, False), (True, False), (False, True)):
        monkeypatch.setattr(torch_cpu, "_addresses_are_limited", lambda answer=limited: answer)
        monkeypatch.setattr(torch_cpu, "_commits_strictly", lambda answer=strictly: answer)
        assert adapter.lazy == (not limited and not strictly)


def test_one_small_request_that_grows_is_no_other_program(adapter):
    loop = Loop(adapter, [1 << 20] * 8)
    with open_session(adapter) as session:
        for number in range(70):
            size = int(16 * 1.1**number)  # beyond what plans leave, and more often than is learned
            run(loop, session, 1, extra=lambda size=size: adapter.free(adapter.request(size)))
        assert [one.phase.value for one in session.history].count("record") < 8
        assert session.history[-1].hit_bytes_rate > 0.999
        loop.finish()


def test_blocks_that_are_hardly_touched_are_planned_apart():
    adapter = SimpleNamespace(alignment=64, engine=SimpleNamespace(sparse_from=1 << 20))
    adapter.engine.delegate_thread = lambda *_: None
    assert SessionState(adapter, Options()).planning.apart_from == 1 << 20
