"""First fit against results worked out by hand."""

from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import pack


def test_largest_first_each_as_low_as_it_can():
    """By size D, A, C, B.

    D [3, 6) 5 to 0
    A [0, 4) 4 meets D at tick 3: to 5
    C [0, 2) 3 meets A only, below which there are 5 bytes: to 0
    B [1, 3) 2 meets A (5 to 9) and C (0 to 3): the gap from 3 to 5 is just enough: to 3
    """
    problem = Problem([4, 2, 3, 5], [0, 1, 0, 3], [4, 3, 2, 6])
    assert pack(problem, "first-fit-size").tolist() == [5, 3, 0, 0]


def test_longest_lifetime_first():
    # Lifetimes 4, 2, 2, 3, and C is larger than B: A, D, C, B. A to 0, D above A, C above A, B:
    # nothing free up to 7.
    problem = Problem([4, 2, 3, 5], [0, 1, 0, 3], [4, 3, 2, 6])
    assert pack(problem, "first-fit-lifetime").tolist() == [0, 7, 4, 4]


def test_a_wrapping_block_needs_its_place_on_both_sides():
    """A [4, 7) 4 wraps a period of 6 ticks and is alive at tick 0, where B [0, 2) 3 meets it."""
    problem = Problem([4, 3, 2], [4, 0, 1], [7, 2, 4], period=6)
    # C [1, 4) 2 meets B (4 to 7) only, and fits below it.
    assert pack(problem, "first-fit-size").tolist() == [0, 4, 0]


def test_a_gap_one_byte_short_is_passed_over():
    # Between A (0 to 4) and the ones above there are 3 bytes for a block of 4.
    problem = Problem([8, 7, 4], [0, 1, 0], [2, 3, 4])
    assert pack(problem, "first-fit-size").tolist() == [0, 8, 15]
    problem = Problem([8, 7, 4], [0, 1, 2], [2, 3, 4])
    assert pack(problem, "first-fit-size").tolist() == [0, 8, 0]
