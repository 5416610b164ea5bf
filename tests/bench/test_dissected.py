import pytest

from bench.packers.dissected import dissected

ARENA = 1 << 20


def alive(problem):
    """Return whether each block is live when each block begins, and whether it was before that.

    Both arrays have the shape (begins, blocks).
    """
    length = problem.upper - problem.lower
    since = problem.lower[:, None] - problem.lower
    since = since % problem.period if problem.period else since
    return (since >= 0) & (since < length), (since > 0) & (since < length)


@pytest.mark.parametrize("circular", [False, True])
def test_arenas_are_full_and_can_be_cut(circular):
    problem = dissected(100, 1, circular=circular)
    there, lives_on = alive(problem)
    assert (there @ problem.size == ARENA).all()
    assert not lives_on.any(axis=1).all()
