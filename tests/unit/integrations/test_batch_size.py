"""Tests of the batch that follows a planned one that ran out of memory."""

import pytest

from pgmo.integrations import batch_size
from pgmo.integrations.batch_size import find_executable_batch_size


@pytest.fixture(autouse=True)
def fifty(monkeypatch):
    monkeypatch.setattr(batch_size, "planned", lambda **_wanted: (50, 1))


def counting_down(start, step):
    sizes = iter(range(start - step, -step, -step))
    return lambda: next(sizes)


@pytest.mark.parametrize(
    ("reduce", "tried"),
    [
        (None, [50, 45, 40]),
        (counting_down(128, 6), [50, 44, 38]),
        (lambda: 46, [50, 46, 41]),
        (lambda: 128, [50, 45, 40]),
    ],
)
def test_each_batch_is_smaller_than_the_one_before(reduce, tried):
    sizes = []

    @find_executable_batch_size(starting_batch_size=128, reduce_batch_size_fn=reduce)
    def train(size):
        sizes.append(size)
        if size > 41:
            raise MemoryError
        return size

    assert train() == tried[-1]
    assert sizes == tried
