"""Plans of the opening, for every structure that a program may begin with."""

from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.plans.openings import openings
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.planner import plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, Profile

# Two activations and a gradient that wraps. The first iteration has state among and after them.
STEADY = plan(Profile.from_columns(size=[64, 96, 32], start=[0, 1, 2], end=[3, 3, 4], ticks=3))
RECORDED = plan(
    Profile.from_columns(
        size=[64, 500, 96, 32, 600], start=range(5), end=[5, NEVER, 5, 6, NEVER], ticks=5
    )
)


def test_births_are_added_where_they_were():
    (made,) = openings(RECORDED, [STEADY])
    assert made.size.tolist() == [64, 500, 96, 32, 600]
    assert made.start.tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(made.end == NEVER).tolist() == [1, 4]
    validate(made)


def test_other_blocks_lie_where_the_steady_plan_has_them():
    (made,) = openings(RECORDED, [STEADY])
    assert made.offset[[0, 2, 3]].tolist() == STEADY.offset.tolist()
    assert made.offset[[1, 4]].tolist() == [UNPLANNED] * 2
    assert made.arena == STEADY.arena


def test_ends_are_put_off_by_what_was_added():
    (made,) = openings(RECORDED, [STEADY])
    # Freed at the end of the iteration, and before the second request of the next iteration.
    assert made.end[[0, 2]].tolist() == [5, 5]
    assert made.end[3] == 5 + 2


def test_each_similar_structure_has_an_opening():
    longer = plan(Profile.from_columns(size=[128, 96, 32], start=[0, 1, 2], end=[3, 3, 4], ticks=3))
    other = plan(Profile.from_columns(size=[7] * 9, start=range(9), end=[9] * 9, ticks=9))
    made = openings(RECORDED, [STEADY, other, longer])
    assert [one.size.tolist() for one in made] == [
        [64, 500, 96, 32, 600],
        [128, 500, 96, 32, 600],
    ]


@pytest.mark.parametrize(("length", "alike"), [(40, False), (60, True), (75, True), (100, True)])
def test_a_recording_between_two_known_lengths_is_similar(length, alike):
    later = np.array([100, 300, 200, 32])
    steady = plan(Profile.from_columns(size=later, start=range(4), end=[4] * 4, ticks=4))
    sizes = [length, 3 * length, 2 * length, 32, 500]
    first = plan(Profile.from_columns(size=sizes, start=range(5), end=[5, 5, 5, 5, NEVER], ticks=5))
    (one,) = openings(first, [steady])
    assert (one is first) == (length != 100)
    (both,) = openings(first, [replace(steady, shorter=[50, 150, 100, 32])])
    assert (both is not first) == alike
    assert not alike or both.size.tolist() == [*later, 500]


def test_the_recording_itself_where_nothing_is_like_it():
    other = plan(Profile.from_columns(size=[7] * 9, start=range(9), end=[9] * 9, ticks=9))
    assert openings(RECORDED, [other]) == [RECORDED]


def test_a_temporary_that_occurs_once_is_known_but_has_no_slot():
    rest = [32, 48, 80, 16, 24, 40, 56, 72]
    size = [64, 96, *rest]
    steady = plan(Profile.from_columns(size=size, start=range(10), end=[10] * 10, ticks=10))
    size = [64, 1000, 96, 500, *rest]
    end = [12, 2, 12, NEVER] + [12] * 8
    recorded = plan(Profile.from_columns(size=size, start=range(12), end=end, ticks=12))
    (made,) = openings(recorded, [steady])
    assert made.size.tolist() == size
    assert made.offset[[1, 3]].tolist() == [UNPLANNED] * 2
    assert np.flatnonzero(made.shared).tolist() == [1]
    assert np.flatnonzero(made.end == NEVER).tolist() == [3]
    validate(made)


def test_a_block_of_two_turns_keeps_both_its_slots():
    steady = plan(Profile.from_columns(size=[64, 4, 32], start=range(3), end=[3, 5, 3], ticks=3))
    recorded = plan(
        Profile.from_columns(size=[64, 4, 32, 900], start=range(4), end=[4, 6, 4, NEVER], ticks=4)
    )
    (made,) = openings(recorded, [steady])
    assert made.alternate[1] == steady.alternate[1] != UNPLANNED
    assert made.end[1] - made.start[1] > made.ticks
    validate(made)


def test_an_opening_has_the_sizes_of_a_shorter_iteration():
    (made,) = openings(RECORDED, [replace(STEADY, shorter=STEADY.size // 2)])
    born = ~np.isin(made.size, STEADY.size)
    assert made.shorter.tolist() == np.where(born, 0, made.size // 2).tolist()
    assert 0 < np.count_nonzero(born) < len(made)
