"""The skyline packers against results worked out by hand."""

import pytest

from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import pack


def test_a_line_worked_out_by_hand():
    """Section 3.2 of Sekiyama et al. 2018, step by step.

    Blocks:  A [0, 5) 2   B [1, 3) 4   C [3, 8) 1   D [5, 8) 3   E [0, 2) 5   F [6, 8) 2

        1. line [0, 8) at 0: the longest lives are A and C (5); A, the larger one, to 0
        2. line [5, 8) at 0: D (3) to 0
        3. lines [0, 5) at 2, [5, 8) at 3. On [0, 5): B and E live 2; E is larger, to 2
        4. line [2, 5) at 2: nothing fits; its lower neighbour is [5, 8) at 3: line [2, 8) at 3
        5. line [2, 8) at 3: C (5) to 3
        6. line [2, 3) at 3: nothing; lifted to [3, 8) at 4: line [2, 8) at 4
        7. line [2, 8) at 4: F (2) to 4
        8. line [2, 6) at 4: nothing (B starts at 1); lifted to [6, 8) at 6: [2, 8) at 6
        9. line [2, 8) at 6: nothing; lifted to [0, 2) at 7: the whole [0, 8) at 7; B to 7
    """
    problem = Problem([2, 4, 1, 3, 5, 2], [0, 1, 3, 5, 0, 6], [5, 3, 8, 8, 2, 8])
    assert pack(problem, "best-fit").tolist() == [0, 7, 3, 0, 2, 4]


def test_area_prefers_the_larger_rectangle():
    # Lives 4 and 2, areas 4 and 20: the one that best-fit puts first is the other one here.
    problem = Problem([1, 10], [0, 1], [4, 3])
    assert pack(problem, "best-fit").tolist() == [0, 1]
    assert pack(problem, "best-fit-area").tolist() == [10, 0]


def test_equal_lifetimes_go_leftmost_line_first():
    problem = Problem([4, 4, 4], [0, 2, 4], [2, 4, 6])
    assert pack(problem, "best-fit").tolist() == [0, 0, 0]


def test_a_wrapping_block_keeps_one_offset_on_both_sides():
    """The circle has no seam: C passes the end of the period of 6 ticks.

        A [1, 5) 4    B [2, 4) 3    C [5, 7) 2    D [0, 1) 1

    A to 0; the line around the back, [5, 7), takes C to 0, which lives at tick 0 as well, so D
    is above it; B is above A.
    """
    problem = Problem([4, 3, 2, 1], [1, 2, 5, 0], [5, 4, 7, 1], period=6)
    assert pack(problem, "best-fit").tolist() == [0, 4, 0, 2]


def test_on_a_line_nothing_joins_over_the_end():
    """As above, but C ends with the line: D, no longer below it in time, sinks to 0."""
    problem = Problem([4, 3, 2, 1], [1, 2, 5, 0], [5, 4, 6, 1])
    assert pack(problem, "best-fit").tolist() == [0, 4, 0, 0]


@pytest.mark.parametrize("packer", ["best-fit", "best-fit-area"])
def test_alignment_rounds_sizes_up(packer):
    problem = Problem([1, 65, 64], [0, 0, 0], [3, 2, 1], alignment=64)
    assert sorted(pack(problem, packer)) in ([0, 64, 192], [0, 128, 192])
