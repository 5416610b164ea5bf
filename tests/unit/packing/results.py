"""Checks of the results of planning, and problems that take a solver some time."""

import numpy as np

from bench.packers.dissected import dissected
from pgmo.packing.lower_bound import max_load
from pgmo.packing.problem import Problem


def hard_problem(blocks: int = 400) -> Problem:
    """Return a problem that no packer brings to the lower bound."""
    return dissected(blocks, 1)


def endless_problem() -> Problem:
    """Return a problem that no solver ends within a minute; its optimum has unused bytes."""
    full = dissected(1000, 1)
    kept = np.arange(len(full)) % 20 != 0
    return Problem(full.size[kept], full.lower[kept], full.upper[kept])


def check_packing(packing) -> None:
    """Check every property of a packing."""
    problem = packing.problem
    size = -(-problem.size // problem.alignment) * problem.alignment
    assert int((packing.offset + size).max(initial=0)) == packing.arena
    assert packing.max_load == max_load(problem) <= packing.bound <= packing.arena
    assert packing.optimal == (packing.bound == packing.arena)
    check_trace(packing)


def check_trace(result) -> None:
    states = [(event.arena, -event.bound) for event in result.trace]
    assert states == sorted(states, reverse=True)
    assert len(set(states)) == len(states)
    times = [event.seconds for event in result.trace]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= result.seconds
    assert states[-1] == (result.arena, -result.bound)
    assert all(
        event.bound <= result.bound and event.arena >= result.arena for event in result.trace
    )
