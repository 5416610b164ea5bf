import numpy as np
import pytest

from pgmo.errors import ProblemError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import pack
from pgmo.profiler.profile import NEVER, Profile


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([8, -1], [0, 0], [1, 1]), r"row 1: size is -1; it must be above 0"),
        (([8, 0], [0, 0], [1, 1]), r"row 1: size is 0"),
        (([8, 8], [0, -2], [1, 1]), r"row 1: lower is -2"),
        (([8, 8], [0, 5], [1, 4]), r"row 1: upper is 4, not above lower, which is 5"),
        (([8], [3], [3]), r"row 0: upper is 3, not above lower"),
        (([8, 8], [0, 7], [1, 8], 7), r"row 1: lower is 7, not below the period of 7"),
        (([8, 8], [0, 3], [1, 11], 7), r"row 1: lives 8 ticks, longer than the period of 7"),
        (([2**61 + 1, 2**61], [0, 0], [1, 1]), r"row 0: .* more than 2\*\*62 bytes"),
        (([8, 2**62 - 4], [0, 0], [1, 1], 0, 64), r"row 1: .* more than 2\*\*62 bytes"),
        (([8], [0, 1], [1, 2]), r"1 sizes, 2 lowers and 2 uppers"),
        (([8.5], [0], [1]), r"column 'size' holds float64; give whole numbers"),
        (([[8]], [0], [1]), r"column 'size' has shape \(1, 1\)"),
        ((np.array([2**63], np.uint64), [0], [1]), r"row 0: size 9223372036854775808"),
        (([8], [0], [1], 0, 0), r"alignment is 0"),
        (([8], [0], [1], -3), r"period is -3"),
    ],
)
def test_malformed_problems_name_the_row_and_the_numbers(arguments, message):
    with pytest.raises(ProblemError, match=message):
        Problem(*arguments)


def test_the_largest_sum_is_accepted():
    problem = Problem([2**61, 2**61], [0, 0], [1, 1])
    assert max_load(problem) == 2**62
    assert sorted(pack(problem, "best-fit-size")) == [0, 2**61]


def test_columns_cannot_be_written():
    problem = Problem([8], [0], [1])
    with pytest.raises(ValueError, match="read-only"):
        problem.size[0] = 9


def test_from_profile_takes_each_kind_of_block():
    profile = Profile.from_columns(
        size=[10, 20, 30, 40, 50, 60],
        start=[0, 1, 2, 3, 0, 0],
        end=[2, NEVER, 6, 8, 2, 8],
        ticks=4,
        shared=[False, False, False, False, True, True],
    )
    problem, rows = Problem.from_profile(profile, 16)
    assert rows.tolist() == [0, 2, 3, 3]
    assert problem.size.tolist() == [10, 30, 40, 40]
    assert problem.lower.tolist() == [0, 2, 0, 0]
    assert problem.upper.tolist() == [2, 6, 4, 4]
    assert (problem.period, problem.alignment) == (4, 16)


def test_from_a_profile_on_a_line_has_no_period():
    profile = Profile.from_columns(size=[10], start=[0], end=[2], ticks=4, circular=False)
    assert Problem.from_profile(profile, 1)[0].period == 0


def test_part_keeps_period_and_alignment():
    part = Problem([1, 2, 3], [0, 1, 2], [1, 2, 4], 3, 8).part([False, True, True])
    assert part.size.tolist() == [2, 3]
    assert (part.period, part.alignment) == (3, 8)
