"""Tests of Ctrl-C, which ends planning with the best packing found so far."""

import os
import signal
import threading

import pytest

from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.solving import portfolio
from pgmo.packing.solving.packer import PACKERS, attempt, pack
from tests.unit.packing.results import check_packing, endless_problem, hard_problem


def interrupting(problem: Problem, name: str, time_limit: float):
    """Run the first packer, and raise KeyboardInterrupt in each other one."""
    if name != PACKERS[0]:
        raise KeyboardInterrupt
    return attempt(problem, name, time_limit)


def test_ctrl_c_returns_the_best_so_far(monkeypatch):
    monkeypatch.setattr(portfolio, "attempt", interrupting)
    packing = plan(hard_problem())
    assert packing.interrupted
    assert packing.offset.tolist() == pack(packing.problem, PACKERS[0]).tolist()
    check_packing(packing)


def test_ctrl_c_before_there_is_anything_is_passed_on(monkeypatch):
    monkeypatch.setattr(portfolio, "PACKERS", PACKERS[1:])
    monkeypatch.setattr(portfolio, "attempt", interrupting)
    with pytest.raises(KeyboardInterrupt):
        plan(hard_problem())


@pytest.mark.parametrize("solver", ["search", "branch-and-bound"])
def test_a_real_ctrl_c_ends_a_solver(solver, monkeypatch):
    """A solver that ignored signals would run for a minute, and not be interrupted."""
    improve, pressed = portfolio.improve, []

    def press() -> None:
        pressed.append(solver)
        os.kill(os.getpid(), signal.SIGINT)

    def interrupted_soon(*arguments, **options):
        timer = threading.Timer(0.3, press)
        timer.start()
        try:
            return improve(*arguments, **options)
        finally:
            timer.cancel()

    monkeypatch.setattr(portfolio, "improve", interrupted_soon)
    packing = plan(endless_problem(), solver=solver, time_limit=60)
    assert pressed == [solver]
    assert packing.interrupted
    assert not packing.optimal
    check_packing(packing)


def test_ctrl_c_in_a_packer_gives_what_it_has_until_then(monkeypatch):
    problem = hard_problem()
    monkeypatch.setattr(portfolio, "attempt", lambda *given: (attempt(*given)[0], True))
    packing = plan(problem)
    assert packing.interrupted
    check_packing(packing)
