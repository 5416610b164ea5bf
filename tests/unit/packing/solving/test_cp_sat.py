import os
import signal
import threading

import numpy as np
import pytest

from bench.packers.dissected import dissected
from pgmo.errors import OptionError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.solving import cp_sat

needs_or_tools = pytest.mark.skipif(not cp_sat.is_installed(), reason="needs pgmo[exact]")


def stacked(problem: Problem) -> np.ndarray:
    return np.cumsum(problem.size) - problem.size


def test_without_or_tools_the_command_is_reported(monkeypatch):
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    with pytest.raises(OptionError, match="not installed; run: pip install ortools"):
        plan(Problem([8], [0], [1]), solver="cp-sat")
    with pytest.raises(OptionError, match="needs OR-Tools"):
        cp_sat.solve(Problem([8], [0], [1]), np.zeros(1, np.int64), 8, time_limit=1)


@needs_or_tools
def test_progress_is_reported_in_the_thread_that_calls():
    problem = dissected(12, 3)
    reported = []
    answer = cp_sat.solve(
        problem,
        stacked(problem),
        max_load(problem),
        time_limit=60,
        threads=2,
        report=lambda *event: reported.append((threading.current_thread(), *event)),
    )
    assert answer.arena == answer.bound == max_load(problem)
    assert {thread for thread, *_ in reported} == {threading.current_thread()}
    seconds, arenas, bounds = zip(*(event for _, *event in reported), strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(arenas) == sorted(arenas, reverse=True)
    assert list(bounds) == sorted(bounds)
    assert (arenas[-1], answer.interrupted) == (answer.arena, False)


@needs_or_tools
def test_areas_beyond_its_numbers_are_refused():
    odd = Problem(np.full(8, 2**58) + np.arange(8), range(8), np.arange(8) + 2)
    with pytest.raises(OptionError, match=r"cannot count .* units of 1 bytes times 8 ticks"):
        cp_sat.solve(odd, stacked(odd), max_load(odd), time_limit=1)


@needs_or_tools
def test_ctrl_c_ends_it_with_what_it_has():
    problem = dissected(200, 1)
    start = plan(problem, effort="fast")
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    answer = cp_sat.solve(problem, start.offset, start.bound, time_limit=300, threads=1)
    timer.cancel()
    assert answer.interrupted
    assert start.bound <= answer.bound <= answer.arena <= start.arena
