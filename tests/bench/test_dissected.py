import numpy as np
import pytest

from bench._dissected import LIVES, dissected, wound

ARENA = 1 << 20


def alive(problem):
    """By begins of lifetimes and blocks: whether the block is alive, and whether it was before."""
    length = problem.upper - problem.lower
    since = problem.lower[:, None] - problem.lower
    since = since % problem.period if problem.period else since
    return (since >= 0) & (since < length), (since > 0) & (since < length)


@pytest.mark.parametrize("lives", LIVES)
@pytest.mark.parametrize("blocks", [60, 300, 1000])
def test_circles_are_full_and_have_no_tick_at_which_all_could_be_cut(blocks, lives):
    for seed in range(3):
        problem = wound(blocks, seed, lives=lives)
        there, lives_on = alive(problem)
        assert len(problem) == blocks
        assert (there @ problem.size == ARENA).all()
        assert lives_on.any(axis=1).all()


@pytest.mark.parametrize("lives", LIVES)
def test_lines_are_full_and_a_turned_one_can_be_cut(lives):
    for circular in (False, True):
        problem = dissected(100, 1, circular=circular, lives=lives)
        there, lives_on = alive(problem)
        assert (there @ problem.size == ARENA).all()
        assert not lives_on.any(axis=1).all()


def test_the_same_seed_gives_the_same_circle():
    one, other = wound(80, 4, lives="long"), wound(80, 4, lives="long")
    assert np.array_equal(one.lower, other.lower)
    assert np.array_equal(one.size, other.size)
    assert not np.array_equal(one.lower, wound(80, 5, lives="long").lower)
