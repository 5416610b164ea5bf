import random

import numpy as np
import pytest

from pgmo.packing.circle_bound import CIRCLE_BLOCKS, circle_bound
from pgmo.packing.lower_bound import least_height, max_load
from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.solving import portfolio


def small_circle(rng: random.Random) -> Problem:
    blocks, period = rng.randint(3, 8), rng.randint(3, 14)
    lower = [rng.randrange(period) for _ in range(blocks)]
    longest = [
        rng.choice([period // 3 + 1, period // 2, period // 2, period]) for _ in range(blocks)
    ]
    upper = [low + rng.randint(1, max(1, most)) for low, most in zip(lower, longest, strict=True)]
    size = [rng.randint(1, rng.choice([1, 3, 20])) for _ in range(blocks)]
    return Problem(size, lower, upper, period=period, alignment=rng.choice([1, 1, 4]))


def around(blocks: int, length: int) -> Problem:
    """Equal blocks of equal lifetimes, one beginning at each tick."""
    lower = np.arange(blocks)
    return Problem(np.full(blocks, 64), lower, lower + length, period=blocks)


@pytest.mark.parametrize(
    ("seed", "count"), [(3, 100), pytest.param(4, 4000, marks=pytest.mark.slow)]
)
def test_bounds_are_never_above_the_smallest_arena(seed, count):
    rng = random.Random(seed)
    above = raised = 0
    for _ in range(count):
        problem = small_circle(rng)
        found = plan(problem, solver="branch-and-bound", threads=1, time_limit=60)
        assert found.optimal
        for arena in (found.arena, found.arena + 5, 2 * found.arena):
            assert circle_bound(problem, arena) <= found.arena
        bound = max(found.max_load, circle_bound(problem, found.arena))
        for low in (bound, found.max_load + 1):
            if low <= found.arena:
                assert low <= least_height(problem, low, found.arena) <= found.arena
        above += found.arena > found.max_load
        raised += bound > found.max_load
    assert above > count / 100
    assert raised > above / 2


@pytest.mark.parametrize(
    ("blocks", "length", "slots"), [(5, 2, 3), (7, 3, 4), (11, 4, 6), (31, 15, 16)]
)
def test_equal_blocks_around_a_circle(blocks, length, slots):
    problem = around(blocks, length)
    assert max_load(problem) == length * 64
    assert circle_bound(problem, 2 * slots * 64) == slots * 64
    found = plan(problem, threads=1)
    assert found.optimal
    assert found.arena == found.bound == slots * 64


def test_lines_and_many_blocks_have_none():
    assert circle_bound(Problem([8, 9], [0, 1], [2, 3]), 17) == 0
    assert circle_bound(Problem([], [], [], 4), 0) == 0
    assert circle_bound(around(CIRCLE_BLOCKS + 1, 2), 9999) == 0


def test_a_block_that_never_ends_is_in_all_offsets():
    assert circle_bound(Problem([3, 5, 7], [0, 1, 2], [4, 2, 3], period=4), 12) == 10


def test_what_comes_after_the_deadline_asks_for_no_bound(monkeypatch):
    asked = []
    monkeypatch.setattr(portfolio, "circle_bound", lambda *given: asked.append(given) or 0)
    assert not plan(around(7, 3), time_limit=0).optimal
    assert asked == []
    plan(around(7, 3), threads=1)
    assert len(asked) == 1
