"""Sessions without references: closed by `pgmo.close()`, or by their finalizer."""

import gc
import os
import signal
import threading
from types import SimpleNamespace

import pytest

import pgmo
from pgmo.allocator.session import open_sessions
from pgmo.errors import AdapterError, OptionError, SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert not open_sessions.any_open()


def works(adapter):
    """Return whether a new session can be opened, and serves."""
    with open_session(adapter) as session:
        run(Loop(adapter, LAYERS), session, 6)
        return session.history[-1].hit_rate == 1


def test_close_closes_what_is_open(adapter):
    session = open_session(adapter).__enter__()
    run(Loop(adapter, LAYERS), session, 6)
    pgmo.close()
    pgmo.close()
    assert session.phase == "closed"
    assert session.summary().iterations == 6
    assert not adapter.installed
    assert works(adapter)


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_close_by_device():
    frameworks = {name: SimulatedAdapter() for name in ("cpu", "cuda:0", "cuda:1", "cuda:11")}
    for name, adapter in frameworks.items():
        adapter.device = name
    sessions = {name: open_session(one).__enter__() for name, one in frameworks.items()}

    def opened():
        return {name for name, one in sessions.items() if one.phase != "closed"}

    pgmo.close("cuda:1")
    assert opened() == {"cpu", "cuda:0", "cuda:11"}
    pgmo.close("cuda")
    assert opened() == {"cpu"}
    with pytest.raises(OptionError, match="not supported"):
        pgmo.close("tpu")
    pgmo.close()
    assert opened() == set()


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_close_leaves_alone_what_the_program_has_not_opened(adapter):
    with open_session(adapter) as session:
        session.on_user_session = session.close
        pgmo.close()
        assert session.phase == "record"


def test_a_session_that_is_lost_is_closed(adapter):
    session = open_session(adapter).__enter__()
    loop = Loop(adapter, LAYERS)
    run(loop, session, 6)
    del session
    assert not adapter.installed
    assert works(adapter)


def test_a_session_that_is_lost_warns_of_what_could_not_be_undone(adapter, monkeypatch):
    def refuse():
        raise AdapterError("the allocator was exchanged")

    session = open_session(adapter).__enter__()
    run(Loop(adapter, LAYERS), session, 6)
    monkeypatch.setattr(adapter, "uninstall", refuse)
    with pytest.warns(UserWarning, match="only forwards requests: the allocator was exchanged"):
        del session
    monkeypatch.undo()
    adapter.uninstall()
    assert works(adapter)


def test_a_session_that_is_lost_in_a_cycle_is_closed_by_the_next(adapter):
    gc.disable()
    try:
        session = open_session(adapter).__enter__()
        session.itself = session
        del session
        assert adapter.installed
        assert works(adapter)
    finally:
        gc.enable()


def test_a_session_that_is_lost_while_others_are_busy_is_closed_after_it(adapter):
    """A finalizer must not wait for a lock, whose owner might wait for the finalizer's thread."""
    lost = [open_session(adapter).__enter__()]
    other = SimulatedAdapter()
    other.device = "cuda:0"
    with open_session(other) as session:
        lifecycle = session._known.lifecycle
        end_iteration = lifecycle.end_iteration
        seen = []

        def losing(complete):
            worker = threading.Thread(target=lost.clear)  # on another thread
            worker.start()
            worker.join(60)
            seen.append((worker.is_alive(), adapter.installed))
            end_iteration(complete)

        lifecycle.end_iteration = losing
        session.step()
        assert seen == [(False, True)]
        assert not adapter.installed
    lost.append(open_session(adapter).__enter__())
    with open_session(other) as session:
        lifecycle = session._known.lifecycle
        end_iteration = lifecycle.end_iteration
        lifecycle.end_iteration = lambda complete: (lost.clear(), end_iteration(complete))
        session.step()  # on the same thread
        assert not adapter.installed


def test_a_session_that_is_lost_while_threads_allocate(adapter):
    loop = Loop(adapter, LAYERS)
    session = open_session(adapter).__enter__()
    run(loop, session, 6)
    stop, errors = threading.Event(), []

    def allocate():
        try:
            while not stop.is_set():
                loop()
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=allocate)
    worker.start()
    del session
    stop.set()
    worker.join()
    assert errors == []
    assert works(adapter)


class Interrupting:
    """Replacement of a method, during which Ctrl-C arrives."""

    def __init__(self, method):
        self._method = method
        self.calls = 0

    def __call__(self, *arguments, **options):
        self.calls += 1
        if self.calls == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return self._method(*arguments, **options)


@pytest.mark.parametrize("how", ["in the loop", "in a pause"])
def test_an_interrupted_cell(adapter, how):
    loop = Loop(adapter, LAYERS)
    with pytest.raises(KeyboardInterrupt), open_session(adapter) as session:
        run(loop, session, 6)
        if how == "in a pause":
            with session.pause():
                raise KeyboardInterrupt
        with session.iteration():
            raise KeyboardInterrupt
    assert works(adapter)


def test_an_interrupt_while_a_session_closes(adapter, monkeypatch):
    loop = Loop(adapter, LAYERS)
    session = open_session(adapter).__enter__()
    run(loop, session, 6)
    monkeypatch.setattr(adapter, "uninstall", Interrupting(adapter.uninstall))
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert session.phase == "closed"
    assert not adapter.installed
    assert works(adapter)


@pytest.mark.parametrize("at", range(1, 5))
def test_an_interrupt_while_plans_are_exchanged(adapter, monkeypatch, at):
    """The session continues as if the cell were run again, no matter when the interrupt comes."""
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        take = adapter.take_arena
        interrupting = Interrupting(take)
        monkeypatch.setattr(adapter, "take_arena", interrupting)
        with pytest.raises(KeyboardInterrupt):
            run(loop, session, 6)
        assert interrupting.calls == 1
        assert session.phase == "replay"
        run(loop, session, at)
        assert session.history[-1].hit_rate == 1


def test_an_interrupt_while_planning(adapter, monkeypatch):
    from pgmo.allocator.session.learning import recorded_plans

    loop = Loop(adapter, LAYERS)
    interrupting = Interrupting(recorded_plans.make_plan)
    monkeypatch.setattr(recorded_plans, "make_plan", interrupting)
    with open_session(adapter) as session:
        with pytest.raises(KeyboardInterrupt):
            run(loop, session, 6)
        assert interrupting.calls == 1
        assert session.phase == "record"
        run(loop, session, 6)
        assert session.phase == "replay"
        assert session.history[-1].requests == session.history[-1].hits > 0


def test_a_signals_handler_that_closes_the_session_amid_a_step(adapter, monkeypatch):
    loop = Loop(adapter, LAYERS)
    session = open_session(adapter).__enter__()
    run(loop, session, 2)
    before = signal.signal(signal.SIGUSR1, lambda *_: session.close())
    try:
        take = adapter.take_arena

        def taking(*arguments):
            os.kill(os.getpid(), signal.SIGUSR1)
            return take(*arguments)

        monkeypatch.setattr(adapter, "take_arena", taking)
        for _ in range(6):
            if session.phase == "closed":
                break
            run(loop, session, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert session.phase == "closed"
    assert not adapter.engine.busy
    assert not adapter.engine.has_arena
    monkeypatch.setattr(adapter, "take_arena", take)
    assert works(adapter)


@pytest.mark.parametrize(
    "error", [SessionError("too little"), AdapterError("refused"), RuntimeError("illegal access")]
)
def test_a_session_closes_though_objects_cannot_wake(adapter, error):
    session = open_session(adapter).__enter__()
    run(Loop(adapter, LAYERS), session, 6)
    sleeping = session._known.sleeping
    small, large, late = [SimpleNamespace(number=number) for number in (1, 2, 3)]
    sleeping.sleeps = [small, large, late]

    def wake(sleep):
        """Return memory for a waking block: the card has room for two, or fails."""
        if sleep is large:
            raise error
        sleeping.sleeps.remove(sleep)

    sleeping.wake = wake
    with pytest.warns(UserWarning, match=f"while state slept: {error}"):
        session.close()
    assert sleeping.sleeps == [large]
    assert session.phase == "closed"
    assert not adapter.installed
    sleeping.wake = sleeping.sleeps.remove
    session.resume()
    assert sleeping.sleeps == []
    assert works(adapter)


def test_a_session_closes_on_a_broken_card(adapter, monkeypatch):
    def broken(_opened, _device, _turns):
        raise RuntimeError("CUDA error")

    session = open_session(adapter).__enter__()
    run(Loop(adapter, LAYERS), session, 6)
    session._known.process_turns = object()
    monkeypatch.setattr(open_sessions.process_turns, "leave", broken)
    with pytest.raises(RuntimeError, match="CUDA error"):
        session.close()
    assert not adapter.installed
    assert not adapter.engine.has_arena
    assert works(adapter)


def test_a_session_that_could_not_begin_leaves_the_queue(adapter, monkeypatch):
    class Turn:
        left = False

        def leave(self):
            self.left = True

    def broken(*_arguments):
        raise RuntimeError("CUDA error")

    turn = Turn()
    monkeypatch.setattr(open_sessions, "_device_turn_of", lambda _opened: turn)
    monkeypatch.setattr(open_sessions.process_turns, "join", broken)
    with pytest.raises(RuntimeError, match="CUDA error"):
        open_session(adapter).__enter__()
    assert turn.left
    assert not adapter.installed
    monkeypatch.undo()
    assert works(adapter)
