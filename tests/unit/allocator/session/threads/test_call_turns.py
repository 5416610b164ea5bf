"""Calls of several threads, of which only some are counted."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgmo import _core
from pgmo.allocator.session.threads.call_turns import OVERLAP, CallTurns
from pgmo.errors import SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session


class Bench:
    """Recording engine, with call turns over it."""

    def __init__(self):
        self.engine = _core.Engine()
        self.engine.start_recording()
        self.said, self.ended = [], []
        self.turns = CallTurns(self.engine, self.said.append, self.ended.append)
        self._next = 1 << 20

    def requests(self):
        """Return whether the engine records a request of this thread."""
        self._next += 4096
        return self.engine.adopt(self._next, 64)


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def other():
    with ThreadPoolExecutor(1) as pool:
        yield lambda work, *arguments: pool.submit(work, *arguments).result(30)


def test_between_calls_nothing_is_seen(bench):
    assert not bench.requests()
    leave = bench.turns.enter()
    assert bench.requests()
    leave(True)
    assert not bench.requests()
    assert bench.ended == [True]
    assert bench.said == []


def test_between_calls_nothing_is_seen_either_where_others_paused_meanwhile(bench):
    bench.turns._paused.begin("a release")
    leave = bench.turns.enter()
    assert not bench.requests()
    bench.turns._paused.end("a release")
    assert bench.requests()
    leave(True)
    bench.turns._paused.begin("a release")
    bench.turns._paused.end("a release")
    assert not bench.requests()


def test_overlapping_calls_are_reported_though_calls_in_a_pause_were_not(bench, other):
    token = bench.turns.pause()
    bench.turns.enter()(True)
    bench.turns.resume(token)
    assert bench.said == []
    leave = bench.turns.enter()
    other(other(bench.turns.enter), True)
    assert bench.said == [OVERLAP]
    leave(True)


def test_the_next_call_is_counted_if_a_warning_is_an_error(other):
    def refuse(text):
        raise UserWarning(text)

    turns = CallTurns(_core.Engine(), refuse, lambda _complete: None)
    leave = turns.enter()
    with pytest.raises(UserWarning):
        other(turns.enter)
    leave(True)
    other(other(turns.enter), True)


def test_a_call_at_the_same_time_stands_beside(bench, other):
    leave = bench.turns.enter()
    aside = other(bench.turns.enter)
    assert other(bench.turns.enter) is None  # within its own call
    assert not other(bench.requests)
    assert bench.requests()
    other(aside, True)
    assert bench.ended == []
    assert other(bench.requests)  # it may be a helper thread of the counted call
    leave(True)
    assert bench.said == [OVERLAP]
    leave = other(bench.turns.enter)
    assert other(bench.requests)
    other(leave, True)
    assert bench.ended == [True, True]


def test_a_call_that_outlasts_the_counted_one_stays_beside(bench, other):
    leave = bench.turns.enter()
    aside = other(bench.turns.enter)
    leave(True)
    leave = bench.turns.enter()
    assert bench.requests()
    assert not other(bench.requests)
    leave(True)
    other(aside, True)
    assert bench.ended == [True, True]


def test_no_call_waits_for_a_boundary(other):
    engine = _core.Engine()
    planning, planned = threading.Event(), threading.Event()

    def end(_complete):
        planning.set()
        assert planned.wait(30)

    turns = CallTurns(engine, lambda _: None, end)

    def call():
        turns.enter()(True)

    thread = threading.Thread(target=call)
    thread.start()
    assert planning.wait(30)
    began = time.monotonic()
    other(call)
    assert time.monotonic() - began < 5
    assert thread.is_alive()
    planned.set()
    thread.join()


def test_pauses_have_calls_stand_beside(bench):
    token = bench.turns.pause()
    leave = bench.turns.enter()
    assert not bench.requests()
    leave(True)
    bench.turns.resume(token)
    assert bench.ended == []
    assert bench.said == []
    leave = bench.turns.enter()
    assert bench.requests()
    leave(True)


def test_closing_leaves_nothing_behind(bench, other):
    leave, aside = bench.turns.enter(), other(bench.turns.enter)
    bench.turns.close()
    assert bench.requests()
    assert other(bench.requests)
    leave(True)
    other(aside, True)
    assert bench.turns.enter() is None
    assert bench.ended == []


def test_an_error_at_the_end_of_a_call_does_not_keep_the_turn():
    def fail(_complete):
        raise ValueError("planning failed")

    turns = CallTurns(_core.Engine(), lambda _: None, fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="planning failed"):
            turns.enter()(True)


@pytest.mark.parametrize("marks", ["begin_iteration", "ends_iteration"])
def test_iterations_cannot_be_marked(bench, marks):
    with pytest.raises(SessionError, match="iterations are calls"):
        getattr(bench.turns, marks)()


def test_a_session_of_calls_serves_one_of_two_that_overlap(adapter, other):
    one, two = Loop(adapter, LAYERS), Loop(adapter, [1 << 12, 1 << 17, 1 << 15])
    with pytest.warns(UserWarning, match="one call at a time"), open_session(adapter) as session:
        turns = session.count_calls()
        for _ in range(9):
            leave, aside = turns.enter(), other(turns.enter)
            one(lambda: other(two))
            other(aside, True)
            leave(True)
            two()  # between calls
        assert session.history[-1].hit_rate == 1
        assert len(session.history) == 9
