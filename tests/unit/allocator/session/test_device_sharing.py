"""Memory that a session frees between iterations, without pages."""

import os
import random
import threading

import pytest

import pgmo
from pgmo.allocator.phase import phase_lists, phase_on
from pgmo.errors import OptionError, SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session


def phase(adapter, name="rollout", asleep=None):
    """Return a phase on a simulated device, which has no device name."""
    return phase_on(adapter, phase_lists(name, asleep, None))


def iterate(loop, session, times):
    for _ in range(times):
        loop()
        session.step()


def test_arenas_go_back_and_come_again(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        iterate(loop, session, 8)
        arena = session.plan.arena
        loop.drop()  # live blocks would keep the arena
        released = session.release()
        assert released.card >= arena
        assert len(adapter.returned) == 1
        session.resume()
        iterate(loop, session, 3)
        assert session.history[-1].hit_rate == 1


def test_without_pages_no_state_sleeps_and_it_is_said(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 6)
        with pytest.warns(UserWarning, match="no state sleeps here"):
            released = session.release(state="host")
        assert released.host == 0
        assert session.asleep == 0


@pytest.mark.parametrize("call", ["release", "phase"])
def test_inside_of_an_iteration_nothing_is_given_back(adapter, call):
    with open_session(adapter) as session, session.iteration():
        with pytest.raises(SessionError, match=rf"{call}\(\) was called inside an iteration"):
            if call == "release":
                session.release()
            else:
                with phase(adapter):
                    pass


def test_a_phase_without_a_mark_is_one_iteration(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for _ in range(6):
            with phase(adapter):
                loop()
            with phase(adapter, "training"):
                iterate(loop, session, 2)
        assert len(session.history) == 18
        assert session.history[-1].hit_rate == 1


def test_an_exception_in_a_phase_ends_the_phase_alone(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 2)
        with pytest.raises(KeyError), phase(adapter):
            raise KeyError
        assert len(session.history) == 2
        iterate(Loop(adapter, LAYERS), session, 1)


def test_a_release_in_a_pause_does_not_end_the_pause(adapter):
    loop, served = Loop(adapter, LAYERS), []

    def evaluate():
        address = adapter.request(LAYERS[0])
        served.append(adapter.served(address))
        adapter.free(address)

    with open_session(adapter) as session:
        iterate(loop, session, 8)
        assert session.history[-1].hit_rate == 1
        with session.pause():
            session.release()
            thread = threading.Thread(target=evaluate)  # evaluations have their own threads
            thread.start()
            thread.join()
        iterate(loop, session, 1)
        assert session.history[-1].hit_rate == 1
    assert served == [False]


def test_invalid_releases_resumes_and_phases_are_errors(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 2)
        with pytest.raises(OptionError, match="neither 'host' nor 'drop'"):
            session.release(state="disk")
    with pytest.raises(OptionError, match="give tensors, modules or optimizers"):
        phase(adapter, asleep="optimizer")
    never = pgmo.optimize(device="cpu")
    with pytest.raises(SessionError, match="has not been opened"):
        never.resume()
    with pytest.raises(SessionError, match="has not been opened"):
        never.release()
    assert never.asleep == 0


def test_no_state_sleeps_while_another_thread_is_inside(adapter):
    inside, go_on = threading.Event(), threading.Event()
    with open_session(adapter) as session:
        loop = Loop(adapter, LAYERS)
        iterate(loop, session, 2)

        def train():
            with session.iteration():
                loop()
                inside.set()
                go_on.wait(30)

        thread = threading.Thread(target=train, name="trainer")
        thread.start()
        assert inside.wait(30)
        with pytest.raises(SessionError, match="while trainer is inside"):
            session.release(state="host")
        with pytest.raises(SessionError, match="while trainer is inside"):
            with phase(adapter, asleep=[pytest.importorskip("torch").nn.Linear(1, 1)]):
                pass
        session.release()  # idle memory is freed, used memory stays
        go_on.set()
        thread.join()


def test_in_any_order(adapter):
    chance, loop = random.Random(0), Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for _ in range(100):
            what = chance.randrange(6)
            if what == 0:
                session.release()
            elif what == 1:
                session.resume()
            elif what == 2:
                with phase(adapter, "outer"), phase(adapter, "inner"):
                    iterate(loop, session, 1)
            else:
                iterate(loop, session, 2)
        session.release()
        iterate(loop, session, 3)
        assert session.history[-1].hit_rate == 1


def test_in_a_forked_child_they_do_nothing(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 6)
        child = os.fork()
        if child == 0:
            released = session.release(state="host")
            session.resume()
            with phase(adapter):
                pass
            os._exit(released.card + released.host)
        assert os.waitpid(child, 0)[1] == 0
        assert len(session.history) == 6
