import numpy as np

from pgmo.packing.lower_bound import least_height, max_load
from pgmo.packing.problem import Problem
from pgmo.profiler.profile import Profile


def test_agrees_with_the_profile_unless_blocks_outlive_a_period():
    rng = np.random.default_rng(5)
    n = 500
    start = np.arange(n)
    profile = Profile.from_columns(
        size=rng.integers(1, 1000, n), start=start, end=start + rng.integers(1, n + 1, n), ticks=n
    )
    assert max_load(Problem.from_profile(profile, 32)[0]) == profile.max_load(32)


def test_is_above_the_profile_when_a_block_needs_two_slots():
    profile = Profile.from_columns(size=[64, 64, 64], start=[0, 1, 2], end=[4, 2, 3], ticks=3)
    assert profile.max_load() == 128
    assert max_load(Problem.from_profile(profile, 1)[0]) == 192


def test_heights_are_sums_of_sizes():
    problem = Problem([6, 10, 15], [0, 0, 0], [1, 1, 1])
    assert [least_height(problem, bound, 31) for bound in (10, 11, 16, 17, 26, 31)] == [
        10, 15, 16, 21, 31, 31
    ]  # fmt: skip
    assert least_height(Problem([1, 1], [0, 0], [1, 1], alignment=64), 65, 128) == 128


def test_heights_are_left_alone_where_sums_are_too_many():
    problem = Problem([2**40, 2**40 + 1, 3], [0, 0, 0], [1, 1, 1])
    assert least_height(problem, 5, 2**41) == 5
