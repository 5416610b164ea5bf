"""Tests of the blocks of a whole recording, and of the bytes that a fix saves of their peak."""

import numpy as np

from pgmo.profiler.profile import NEVER
from tests.unit.report.advice.recordings import facts


def test_a_saving_is_the_difference_of_two_peaks():
    blocks = facts(("other", 100, 0, 1), ("log", 70, 1, 3), ("log", 50, 2, 3)).blocks
    assert (blocks.peak, blocks.live.tolist()) == (120, [100, 70, 120])
    assert blocks.at_peak.tolist() == [False, True, True]
    assert blocks.saving(blocks.by_operator("softmax")) == 20  # the first block becomes the peak
    assert blocks.saving(np.array([False, False, True]), left=0.9) == 5
    assert blocks.saving_until(np.array([1, 2, 3])) == 20
    assert blocks.place(blocks.at_peak) == " (at model.py:10 in forward)"


def test_blocks_that_nothing_frees_stay():
    blocks = facts(("other", 8, 0, NEVER), ("log", 4, 1, 2)).blocks
    assert blocks.stays.tolist() == [True, False]
    assert blocks.end.tolist() == [2, 2]
