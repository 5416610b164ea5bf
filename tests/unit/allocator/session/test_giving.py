"""What a session gives back between iterations, where memory has no pages."""

import pytest

from pgmo.errors import SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session


def iterate(loop, session, times):
    for _ in range(times):
        loop()
        session.step()


def test_arenas_go_back_and_come_again(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        iterate(loop, session, 8)
        arena = session.plan.arena
        loop.drop()  # what lives there would keep it
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


@pytest.mark.parametrize("call", ["release", "stage"])
def test_inside_of_an_iteration_nothing_is_given_back(adapter, call):
    with open_session(adapter) as session, session.iteration():
        with pytest.raises(SessionError, match=r"inside session\.iteration"):
            if call == "release":
                session.release()
            else:
                with session.stage("rollout"):
                    pass


def test_a_stage_without_a_mark_is_one_iteration(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for _ in range(6):
            with session.stage("rollout"):
                loop()
            with session.stage("training"):
                iterate(loop, session, 2)
        assert len(session.history) == 18
        assert session.history[-1].hit_rate == 1


def test_an_exception_in_a_stage_ends_the_stage_alone(adapter):
    with open_session(adapter) as session:
        iterate(Loop(adapter, LAYERS), session, 2)
        with pytest.raises(KeyError), session.stage("rollout"):
            raise KeyError
        assert len(session.history) == 2
        iterate(Loop(adapter, LAYERS), session, 1)
