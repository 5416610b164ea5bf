import numpy as np
import pytest

from pgmo.packing.problem import Problem
from pgmo.packing.solving.best_known import BestKnown
from pgmo.packing.solving.stages import schedule

GIB = 2**30


def seconds_of(blocks: int, above: int, effort: str) -> float:
    """Return the seconds of the first stage, of 5 s, if the arena is `above` bytes over a GiB."""
    problem = Problem([GIB // blocks] * blocks, [0] * blocks, [1] * blocks)
    best = BestKnown(problem)
    best.offer(np.arange(blocks) * (GIB // blocks) + above, "by hand")
    assert best.arena == GIB + above
    first, *_ = schedule(best, effort, 5.0)
    return first[1]


@pytest.mark.parametrize("blocks", [16, 1024])
def test_all_of_the_time_is_taken_until_a_millionth_is_left(blocks):
    little, much = seconds_of(blocks, 1000, "balanced"), seconds_of(blocks, 20000, "balanced")
    assert little == pytest.approx(much / 5)
    assert seconds_of(blocks, 1000, "best") == pytest.approx(much)


def test_fast_has_no_turns():
    problem = Problem([1, 1], [0, 0], [1, 1])
    assert list(schedule(BestKnown(problem), "fast", 5.0)) == []
