"""Forked children: inherited sessions do nothing, and children can open their own."""

import os
import warnings

import pytest

from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def in_child(work):
    """Run a function in a forked child; return its exit code, 0 if the result is true."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("iterations", [0, 1, 2, 6])
def test_forked_child_opens_a_session_of_its_own(adapter, iterations):
    loop = Loop(adapter, LAYERS)

    def train_alone():
        with open_session(adapter) as own:
            run(loop, own, 6)
            session.step()  # the inherited session does nothing
            return own.history[-1].hit_rate == 1 and len(own.history) == 6

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(adapter) as session:
            run(loop, session, iterations)
            assert in_child(train_alone) == 0
            run(loop, session, 6)
            assert session.history[-1].hit_rate == 1


def test_forked_child_opens_one_amid_an_iteration_and_a_pause(adapter):
    loop = Loop(adapter, LAYERS)

    def train_alone():
        with open_session(adapter) as own:
            run(loop, own, 6)
            return own.history[-1].hit_rate == 1

    with open_session(adapter) as session:
        run(loop, session, 4)
        with session.iteration():
            loop()
            assert in_child(train_alone) == 0
        with session.pause():
            assert in_child(train_alone) == 0
        run(loop, session, 2)
        assert session.history[-1].hit_rate == 1


def test_closing_what_it_has_inherited_leaves_a_forked_childs_own_session_open(adapter):
    loop = Loop(adapter, LAYERS)

    def close_one_of_two():
        with open_session(adapter) as own:
            session.close()
            run(loop, own, 6)
            return own.history[-1].hit_rate == 1

    with open_session(adapter) as session:
        run(loop, session, 4)
        assert in_child(close_one_of_two) == 0
