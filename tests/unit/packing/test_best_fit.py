"""Test of a skyline on a circle, by hand; tests on lines are in `tests/conformance`."""

from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import pack


def test_a_wrapping_block_keeps_one_offset_on_both_sides():
    """C lives across the end of the period of 6 ticks, and has one offset.

        A [1, 5) 4    B [2, 4) 3    C [5, 7) 2    D [0, 1) 1

    Rows are name, [start, end) and size. A gets offset 0, and so does C. D lives at tick 0, as C
    does, so D is above C. B is above A.
    """
    problem = Problem([4, 3, 2, 1], [1, 2, 5, 0], [5, 4, 7, 1], period=6)
    assert pack(problem, "best-fit").tolist() == [0, 4, 0, 2]
