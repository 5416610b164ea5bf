"""When an arena's idle pages are lent in a pause."""

import pytest

from pgmo.allocator.session import idle_memory
from pgmo.allocator.session.idle_memory import IdleMemory


class Engine:
    def __init__(self, arena_bytes):
        self.arena_bytes, self.discarded = arena_bytes, 0

    def statistics(self):
        return {"arena_bytes": self.arena_bytes}

    def discard_idle_host_memory(self):
        self.discarded += 1
        return self.arena_bytes


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(idle_memory.time, "monotonic", lambda: now[0])
    return now


def pause(idle, clock, seconds):
    idle.begin()
    clock[0] += seconds
    idle.end()


def test_in_the_first_pause_and_in_long_ones(clock):
    engine = Engine(1 << 30)  # half a second to fill again
    idle = IdleMemory(engine)
    pause(idle, clock, 60)
    pause(idle, clock, 60)
    assert engine.discarded == 2


def test_seldom_in_short_ones(clock):
    engine = Engine(1 << 30)
    idle = IdleMemory(engine)
    for _ in range(100):
        clock[0] += 1
        pause(idle, clock, 0.01)
    assert engine.discarded == 2  # at first, and after 100 times what it costs


def test_not_without_an_arena(clock):
    engine = Engine(0)
    pause(IdleMemory(engine), clock, 60)
    assert engine.discarded == 0
