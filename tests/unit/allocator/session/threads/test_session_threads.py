"""Sessions whose loops, pauses and ends run on several threads."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import pgmo
from pgmo.allocator import optimize
from pgmo.allocator.session.threads.turns import OVERLAP
from pgmo.errors import SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


@pytest.fixture
def workers():
    """Yield two threads that execute functions."""
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        yield (
            lambda work, *arguments: one.submit(work, *arguments).result(),
            lambda work, *arguments: other.submit(work, *arguments).result(),
        )


def test_one_of_two_loops_at_the_same_time_is_served(adapter, workers):
    a, b = workers
    one, other = Loop(adapter, LAYERS), Loop(adapter, [1 << 12, 1 << 17, 1 << 15])
    with pytest.warns(UserWarning, match="serve one thread"), open_session(adapter) as session:
        for _ in range(9):
            iterations = session.iteration(), session.iteration()
            a(iterations[0].__enter__)
            b(iterations[1].__enter__)
            a(one)
            b(other)
            b(iterations[1].__exit__, None, None, None)
            a(iterations[0].__exit__, None, None, None)
        assert session.history[-1].hit_rate == 1
        assert len(session.history) == 9
    assert OVERLAP in session.summary().notes


def test_one_of_two_loops_that_mingle_is_served(adapter, workers):
    a, b = workers
    one, other = Loop(adapter, LAYERS), Loop(adapter, [1 << 12, 1 << 17, 1 << 15])

    def iterate(session):
        a(one, lambda: b(other))
        b(session.step)
        a(session.step)

    with pytest.warns(UserWarning, match="serve one thread"), open_session(adapter) as session:
        # Thread b steps first; a's iteration, which began earlier, overlaps with it.
        for _ in range(12):
            iterate(session)
        assert session.history[-1].hit_bytes_rate > 0.99
        assert session.phase == "replay"
    assert OVERLAP in session.summary().notes


def test_step_while_another_thread_is_in_a_pause(adapter, workers):
    a, _ = workers
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 6)
        pause = session.pause()
        a(pause.__enter__)
        run(loop, session, 3)
        assert session.history[-1].hit_rate == 1
        a(adapter.request, 1 << 14)  # by the paused thread
        run(loop, session, 1)
        assert session.history[-1].hit_rate == 1
        a(pause.__exit__, None, None, None)
        run(loop, session, 1)
        assert session.history[-1].hit_rate == 1


def test_a_session_that_another_thread_closes(adapter, workers):
    a, b = workers
    loop = Loop(adapter, LAYERS)
    session = a(open_session(adapter).__enter__)
    iteration, pause = session.iteration(), session.pause()
    for _ in range(5):
        a(loop)
        a(session.step)
    a(iteration.__enter__)
    a(loop)
    a(pause.__enter__)
    b(session.close)
    a(pause.__exit__, None, None, None)
    a(iteration.__exit__, None, None, None)  # does not raise
    for call in (session.step, session.pause().__enter__, session.iteration().__enter__):
        with pytest.warns(UserWarning, match="another thread has closed the session"):
            a(call)
    with pytest.raises(SessionError, match="has been closed"):
        b(session.step)  # raises
    with open_session(adapter) as session:
        run(loop, session, 6)
        assert session.history[-1].hit_rate == 1


def test_a_child_that_is_forked_while_another_thread_is_inside_of_a_boundary(adapter, monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    with open_session(adapter) as session:
        run(Loop(adapter, LAYERS), session, 1)

        def slow(complete):
            inside.set()
            assert go_on.wait(60)

        monkeypatch.setattr(session._known.lifecycle, "end_iteration", slow)
        ended = threading.Thread(target=session.step)
        ended.start()
        assert inside.wait(60)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                session.step()
                with session.iteration(), session.pause():
                    pass
                session.close()
                status = 0
            finally:
                os._exit(status)
        go_on.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ended.join()


def test_boundaries_are_one_after_the_other(adapter, monkeypatch):
    """A thread ends an iteration while another thread installs a plan."""
    loop, others, inside, most = Loop(adapter, LAYERS), [], [], []
    take = adapter.take_arena

    def taking(size, stream):
        if not others:
            others.append(threading.Thread(target=session.step))
            others[0].start()
            others[0].join(0.2)  # long enough to overlap, if it could
        return take(size, stream)

    monkeypatch.setattr(adapter, "take_arena", taking)
    with open_session(adapter) as session:
        lifecycle = session._known.lifecycle
        end_iteration = lifecycle.end_iteration

        def ending(complete):
            inside.append(complete)
            most.append(len(inside))
            end_iteration(complete)
            inside.pop()

        monkeypatch.setattr(lifecycle, "end_iteration", ending)
        for _ in range(8):
            loop()
            session.step()
        others[0].join()
        assert session.phase == "replay"
        assert session.history[-1].hit_rate == 1
    assert max(most) == 1


def test_an_operator_that_outlasts_its_recording():
    """Another thread ends the iteration during the operator, whose tag must not be used later."""
    torch = pytest.importorskip("torch")
    amid = []

    @torch.library.custom_op("pgmo_tests::amid", mutates_args=())
    def operator(given: torch.Tensor) -> torch.Tensor:
        if amid:
            ended = threading.Thread(target=amid.pop())
            ended.start()
            ended.join()
        return torch.ones(1 << 12)

    given = torch.ones(4)
    events = []

    def end_iteration():
        session._known.lifecycle._record()  # as after a truncated iteration

    with pgmo.optimize(device="cpu") as session:
        amid.append(end_iteration)
        operator(given)
        session.step()
        engine = session._known.adapter.engine
        events = engine.events()
        assert session.recording is not None
        assert len(session.recording) > 0
    requests = events[events["kind"] == 0]
    assert (requests["tag"] == -1).any()
    assert requests["tag"].max() < 1


def test_many_threads_that_do_everything_at_once(adapter):
    """No thread raises an error, and no thread waits forever."""
    lock = threading.Lock()  # the simulated framework is not thread-safe
    errors = []

    def work(number, session):
        loop = Loop(adapter, LAYERS[: 2 + number])
        try:
            for turn in range(40):
                with lock:
                    loop()
                if turn % 7 == 3:
                    with session.pause(), lock:
                        adapter.free(adapter.request(512))
                if number % 2:
                    session.step()
                else:
                    with session.iteration(), lock:
                        adapter.free(adapter.request(256))
        except BaseException as error:
            errors.append(error)

    with pytest.warns(UserWarning, match="pgmo: "), open_session(adapter) as session:
        threads = [threading.Thread(target=work, args=(n, session)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert errors == []
    with open_session(adapter) as session:  # nothing of the earlier sessions is left
        loop = Loop(adapter, LAYERS)
        run(loop, session, 6)
        assert session.history[-1].hit_rate == 1


def test_an_adapter_is_looked_for_by_one_thread_at_a_time(monkeypatch):
    there, most = [], []

    def find():
        there.append(None)
        most.append(len(there))
        time.sleep(0.01)
        there.pop()

    monkeypatch.setattr("pgmo.allocator.adapters.torch_cpu.torch_cpu", find)
    threads = [threading.Thread(target=optimize.adapter_of, args=("cpu",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
