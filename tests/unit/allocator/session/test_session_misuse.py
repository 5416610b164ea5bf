"""Misuse raises a clear error, and does not harm running sessions."""

import pytest

from pgmo.allocator.metrics import memory_stats
from pgmo.errors import OptionError, SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def test_nested_sessions_are_refused(adapter):
    with open_session(adapter) as session:
        with pytest.raises(SessionError, match="is open already"), open_session(adapter):
            pass
        run(Loop(adapter, LAYERS), session, 6)  # the outer session still works
        assert session.history[-1].hit_rate == 1


@pytest.mark.parametrize("call", ["step", "iteration", "pause"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_calls_outside_of_the_session_are_refused(adapter, call, when):
    session = open_session(adapter)
    if when == "after":
        with session:
            pass
    with pytest.raises(SessionError, match=rf"session.{call}\(\) was called, but"):
        result = getattr(session, call)()
        if call != "step":
            with result:
                pass


def test_step_inside_of_iteration_is_refused(adapter):
    with open_session(adapter) as session, session.iteration():
        with pytest.raises(SessionError, match="use one of the two"):
            session.step()
        with pytest.raises(SessionError, match="inside another iteration"), session.iteration():
            pass


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_iterations_inside_of_a_pause_are_refused(adapter):
    with open_session(adapter) as session, session.pause():
        with pytest.raises(SessionError, match=r"cannot end inside session\.pause"):
            session.step()
        with pytest.raises(SessionError, match="cannot begin"), session.iteration():
            pytest.fail("the body must not run")


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_a_session_is_used_once(adapter):
    session = open_session(adapter)
    with session:
        pass
    with pytest.raises(SessionError, match="used before"), session:
        pass


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("device", "tpu", "not supported"),
        ("plan", 3, "neither a Plan nor the path"),
        ("model_name", "../x", "cannot be part of a file's name"),
        ("framework", ("torch", "cupy"), "open one of each"),
    ],
)
def test_bad_options(adapter, option, value, message):
    with pytest.raises(OptionError, match=message):
        open_session(adapter, **{option: value})


def test_a_limit_without_pages_is_not_silent(adapter):
    session = open_session(adapter, limit="1 GiB")
    with pytest.warns(UserWarning, match="limit= has no effect"):
        session.__enter__()
    session.close()


@pytest.mark.parametrize("device", ["foo", "cuda:x", 3])
def test_figures_of_a_device_that_cannot_be_meant(device):
    with pytest.raises(OptionError, match="is not supported"):
        memory_stats(device)


def test_a_removed_method_names_its_successor(adapter):
    with open_session(adapter) as session, pytest.raises(SessionError, match=r"pgmo\.phase\("):
        session.stage("training", asleep=[])
