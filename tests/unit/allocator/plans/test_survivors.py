"""What lives on where another plan has other slots."""

import numpy as np
import pytest

from pgmo.allocator.plans.layout import Layout
from pgmo.allocator.plans.survivors import Blocks, blocks_in, missed
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile

LIVING = np.dtype(
    [("address", "u8"), ("bytes", "i8"), ("kind", "u8"), ("until", "i8")],
)


@pytest.fixture
def one():
    """Two blocks that are never alive together, and so lie at one place; then one above both."""
    profile = Profile.from_columns(size=[640, 640, 64], start=[0, 2, 1], end=[2, 3, 3], ticks=3)
    return plan(profile)


def blocks(*rows):
    return Blocks(*np.array(rows, np.int64).reshape(-1, 3).T)


def test_only_slots_that_come_before_the_block_has_died_are_missed(one):
    offset = np.where(one.size == 640, 0, 640)
    first, second = sorted(one.start[one.size == 640].tolist())
    assert missed(one, offset, blocks((0, 64, first))) == 0
    assert missed(one, offset, blocks((0, 64, first + 1))) == 640
    assert missed(one, offset, blocks((0, 64, second + 1))) == 1280
    assert missed(one, offset, blocks((64, 128, 0), (600, 700, second + 1))) == 1344


def test_what_lies_elsewhere_is_in_nobodys_way(one):
    offset = np.where(one.size == 640, 0, 640)
    assert missed(one, offset, blocks((704, 1000, 9))) == 0
    assert missed(one, np.full(3, -1), blocks((0, 1000, 9))) == 0


def test_blocks_are_found_by_their_addresses(one):
    layout = Layout([one])
    rows = [(4096 + 64, 8, 1, 2), (4096, 16, 2, -1), (100, 8, 0, -1)]
    found = blocks_in(np.array(rows, LIVING), {0: 4096}, layout)
    assert found.begin.tolist() == [0, 64]
    assert found.end.tolist() == [16, 72]
    assert found.until[1] == 2
    assert found.until[0] > one.ticks  # it is late: nobody knows
