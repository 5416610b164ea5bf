"""Iterations of several threads, of which only some are counted."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgmo import _core
from pgmo.allocator import heuristics
from pgmo.allocator.session.threads.turns import OVERLAP, Turns
from pgmo.errors import SessionError

PATIENCE = heuristics.Heuristics().shortest_wait


class Worker:
    """Thread that executes functions, and requests memory."""

    def __init__(self, engine):
        self._engine = engine
        self._pool = ThreadPoolExecutor(1)
        self._next = 1 << 20

    def __call__(self, work, *arguments):
        return self._pool.submit(work, *arguments).result()

    def request(self, times=1):
        """Request memory; return whether the engine counts the request."""
        return self(self._request, times)

    def end(self):
        self._pool.shutdown()

    def _request(self, times):
        noted = False
        for _ in range(times):
            self._next += 4096
            noted = self._engine.adopt(self._next + (id(self) << 8), 64)
        return noted


class Listening:
    """Engine that records its delegated threads."""

    def __init__(self, engine, calls):
        self._engine = engine
        self._calls = calls

    def delegate_thread(self, thread, on):
        self._calls.append((thread, on))
        self._engine.delegate_thread(thread, on)

    def __getattr__(self, name):
        return getattr(self._engine, name)


class Bench:
    def __init__(self):
        self.engine = _core.Engine()
        self.engine.start_recording()
        self.said = []
        self.turns = Turns(self.engine, self.said.append)
        self.a, self.b = Worker(self.engine), Worker(self.engine)

    def step(self, worker):
        """End an iteration as a session does."""
        counted = worker(self.turns.ends_iteration)
        if counted:
            self.engine.end_iteration()
        return counted

    def enter(self, worker):
        worker(self.turns.begin_iteration)

    def leave(self, worker):
        thread = worker(threading.current_thread)
        counted = worker(self.turns.leave_iteration, thread)
        if counted:
            self.engine.end_iteration()
        return counted

    def mingle(self):
        """Overlap an iteration of each thread, and end that of b."""
        self.a.request(8)
        self.step(self.a)
        self.b.request()
        self.a.request(8)
        self.b.request()
        return self.step(self.b)


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.a.end()
    made.b.end()


def test_threads_one_after_the_other_are_all_counted(bench):
    for worker in (bench.a, bench.a, bench.b, bench.a, bench.b, bench.b):
        assert worker.request(20)
        assert bench.step(worker)
        assert bench.turns.whole()
        worker.request()  # a request after a step, such as for logging
    assert not bench.said


def test_of_threads_at_the_same_time_one_is_counted(bench):
    assert not bench.mingle()
    assert bench.said == [OVERLAP]
    assert not bench.b.request()  # delegated
    assert bench.a.request(8)
    assert bench.step(bench.a)
    assert not bench.step(bench.b)
    assert bench.said == [OVERLAP]  # once


def test_half_an_iteration_of_another_thread_is_not_what_it_does_after_a_step(bench):
    bench.a.request(20)
    assert bench.step(bench.a)
    bench.a.request(10)  # a was interrupted in its next iteration
    bench.b.request(20)
    assert not bench.step(bench.b)


def test_a_thread_that_ends_is_succeeded(bench):
    bench.mingle()
    bench.a.end()
    assert bench.step(bench.b)
    assert not bench.turns.whole()  # the thread was delegated until now
    assert bench.b.request()
    assert bench.step(bench.b)
    assert bench.turns.whole()


def test_a_thread_that_stops_training_is_succeeded(bench):
    bench.mingle()
    bench.step(bench.a)
    counted = [bench.step(bench.b) for _ in range(PATIENCE)]
    assert counted == [False] * (PATIENCE - 1) + [True]
    assert bench.b.request()


def test_a_thread_without_requests_here_trains_on_another_device(bench):
    for _ in range(3):
        bench.a.request(8)
        assert bench.step(bench.a)
        bench.a.request(8)
        assert not bench.step(bench.b)
    assert not bench.said


def test_a_thread_that_only_ends_iterations_is_followed_when_no_other_does(bench):
    bench.a.request(8)
    bench.step(bench.a)
    bench.a.request(8)
    assert [bench.step(bench.b) for _ in range(PATIENCE)][-1]


def test_iterations_that_overlap(bench):
    bench.enter(bench.a)
    bench.enter(bench.b)
    assert bench.a.request()
    assert not bench.b.request()
    assert not bench.leave(bench.b)
    assert bench.leave(bench.a)
    bench.enter(bench.b)  # the other thread is only between two iterations
    bench.enter(bench.a)
    assert bench.a.request()
    assert not bench.leave(bench.b)
    assert bench.leave(bench.a)


def test_step_beside_an_iteration(bench):
    bench.enter(bench.a)
    assert not bench.step(bench.b)
    assert bench.leave(bench.a)


def test_misuse_is_that_of_the_calling_thread(bench):
    bench.enter(bench.a)
    with pytest.raises(SessionError, match="inside another iteration"):
        bench.enter(bench.a)
    with pytest.raises(SessionError, match="use one of the two"):
        bench.step(bench.a)
    bench.leave(bench.a)
    token = bench.b(bench.turns.pause)
    with pytest.raises(SessionError, match="cannot end inside"):
        bench.step(bench.b)
    with pytest.raises(SessionError, match="cannot begin inside"):
        bench.enter(bench.b)
    assert bench.step(bench.a)
    bench.b(bench.turns.resume, token)
    bench.step(bench.b)


def test_a_pause_delegates_all_threads_while_no_other_trains(bench):
    bench.a.request(8)
    bench.step(bench.a)
    for worker in (bench.a, bench.b):
        token = worker(bench.turns.pause)
        assert not bench.a.request()
        assert not bench.b.request()
        worker(bench.turns.resume, token)
        assert bench.a.request()
        assert bench.b.request()


def test_a_pause_beside_a_loop_is_about_its_own_thread(bench):
    bench.step(bench.a)
    token = bench.b(bench.turns.pause)
    bench.a.request(8)
    assert bench.step(bench.a)
    assert not bench.turns.whole()  # a part of this iteration was delegated
    assert bench.a.request()
    assert not bench.b.request()
    bench.b(bench.turns.resume, token)
    token = bench.b(bench.turns.pause)  # from now on the session knows this
    assert bench.a.request()
    assert not bench.b.request()
    assert bench.step(bench.a)
    assert bench.turns.whole()
    bench.a(bench.turns.resume, token)  # any thread may resume
    assert bench.b.request()


def test_a_pause_amid_another_threads_iteration(bench):
    bench.enter(bench.a)
    token = bench.b(bench.turns.pause)
    assert bench.a.request()
    assert not bench.b.request()
    assert bench.leave(bench.a)
    assert bench.turns.whole()
    bench.b(bench.turns.resume, token)
    assert bench.b.request()


def test_a_thread_that_ends_in_a_pause_gives_its_number_back_once(bench, monkeypatch):
    calls = []
    engine = Listening(bench.engine, calls)
    monkeypatch.setattr(bench.turns, "_engine", engine)
    bench.step(bench.a)
    number = bench.b(threading.get_native_id)
    bench.b(bench.turns.pause)
    bench.b.end()
    for _ in range(3):  # afterwards another thread may be counted
        bench.step(bench.a)
    bench.turns.close()
    assert calls == [(number, True), (number, False)]


def test_pauses_are_about_all_threads_again_when_the_loop_beside_has_ended(bench):
    bench.step(bench.a)
    token = bench.b(bench.turns.pause)
    bench.step(bench.a)
    bench.b(bench.turns.resume, token)
    bench.a.end()
    bench.a = Worker(bench.engine)
    assert bench.step(bench.b)
    token = bench.a(bench.turns.pause)
    assert not bench.a.request()
    assert not bench.b.request()
    bench.a(bench.turns.resume, token)
    assert bench.b.request()


def test_pauses_nest(bench):
    outer, inner = bench.a(bench.turns.pause), bench.a(bench.turns.pause)
    bench.a(bench.turns.resume, inner)
    assert not bench.a.request()
    bench.a(bench.turns.resume, outer)
    assert bench.a.request()


def test_nothing_is_left_behind(bench):
    bench.mingle()
    token = bench.a(bench.turns.pause)
    bench.turns.close()
    assert bench.a.request()
    assert bench.b.request()
    bench.engine.pause()  # as a later session does
    bench.a(bench.turns.resume, token)
    assert not bench.a.request()
