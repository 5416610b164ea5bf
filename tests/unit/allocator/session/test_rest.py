"""What a pause leaves to others, and when."""

import threading

import pytest

import pgmo
from pgmo.allocator import tuning
from pgmo.allocator.session import rest
from tests.unit.allocator.simulated import LAYERS, Loop, open_session


def iterate(loop, session, times):
    for _ in range(times):
        loop()
        session.step()


def test_the_adapter_is_told_of_pauses(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 8)
        with session.pause(long=True):
            assert adapter.rests == [True]
        assert adapter.rests == [True, False]


def test_a_pause_within_another_is_one(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 8)
        with session.pause(long=True):
            with session.pause(long=True):
                pass
            assert adapter.rests == [True]
        assert adapter.rests == [True, False]


def test_pauses_between_all_iterations_are_not_worth_it(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for _ in range(3 * tuning.REST_ITERATIONS):
            iterate(loop, session, 1)
            with session.pause(long=True):
                pass
    assert adapter.rests == [True, False] * 3


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a test says so."""
    now = [0.0]
    monkeypatch.setattr(rest.Rest.__init__, "__defaults__", (lambda: now[0],))
    return now


def test_the_last_pause_tells_whether_one_is_worth_it(adapter, clock):
    loop, rested = Loop(adapter, LAYERS), []
    with open_session(adapter) as session:
        for seconds in (0.1, 5.0, 5.0, 0.1, 0.1):
            for _ in range(8):
                iterate(loop, session, 1)
                clock[0] += 1.0
            adapter.rests.clear()
            with session.pause():
                rested.append(bool(adapter.rests))
                clock[0] += seconds
    assert rested == [False, False, True, True, False]


def test_an_interrupted_beginning_leaves_nothing_paused(adapter, monkeypatch):
    def interrupted(on):
        raise KeyboardInterrupt

    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        iterate(loop, session, 8)
        with monkeypatch.context() as patched:
            patched.setattr(adapter, "rest", lambda on: interrupted(on) if on else None)
            with pytest.raises(KeyboardInterrupt), session.pause(long=True):
                pass
        before = session.statistics["hits"]
        iterate(loop, session, 2)
        assert session.statistics["hits"] > before


def test_beside_a_loop_that_goes_on_nothing_rests(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        iterate(loop, session, 8)

        def evaluate():
            with session.pause(long=True):
                pass

        with session.iteration():
            thread = threading.Thread(target=evaluate)
            thread.start()
            thread.join()
        iterate(loop, session, 2)
        adapter.rests.clear()
        with session.iteration():
            thread = threading.Thread(target=evaluate)
            thread.start()
            thread.join()
    assert adapter.rests == []


@pytest.mark.parametrize("living", [False, True])
def test_what_an_evaluation_takes_comes_not_on_top_of_the_arena(living):
    torch = pytest.importorskip("torch")
    size = 32 << 20
    kept = None
    with pgmo.optimize(device="cpu", framework="torch") as session:
        for number in range(6):
            weights = torch.full((size // 4,), float(number))
            double = weights * 2
            session.step()
        held = _resident()
        kept = double if living else None
        del weights, double
        with session.pause(long=True):
            assert _resident() < held - (1 if living else 2) * size + (8 << 20)
        if kept is not None:
            assert torch.all(kept == 2.0 * 5)
        again = torch.full((size // 4,), 3.0)
        assert torch.all(again == 3.0)


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
