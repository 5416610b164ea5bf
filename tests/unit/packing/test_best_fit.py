"""A skyline on a circle against a result worked out by hand; on lines see `tests/conformance`."""

from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import pack


def test_a_wrapping_block_keeps_one_offset_on_both_sides():
    """The circle has no seam: C passes the end of the period of 6 ticks.

        A [1, 5) 4    B [2, 4) 3    C [5, 7) 2    D [0, 1) 1

    A to 0; the line around the back, [5, 7), takes C to 0, which lives at tick 0 as well, so D
    is above it; B is above A.
    """
    problem = Problem([4, 3, 2, 1], [1, 2, 5, 0], [5, 4, 7, 1], period=6)
    assert pack(problem, "best-fit").tolist() == [0, 4, 0, 2]
