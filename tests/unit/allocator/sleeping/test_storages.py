"""Storages of objects that will sleep."""

import random

import pytest

from pgmo.allocator.sleeping.storages import bytes_within, listed
from pgmo.errors import OptionError


@pytest.mark.parametrize("seed", range(20))
def test_bytes_of_blocks_in_runs_are_those_that_both_have(seed):
    chance = random.Random(seed)

    def pieces():
        ends = sorted(chance.sample(range(300), 12))
        return [(begin, end - begin) for begin, end in zip(ends[::2], ends[1::2], strict=True)]

    blocks, runs = pieces(), pieces()
    covered = [
        {at for begin, size in some for at in range(begin, begin + size)} for some in (blocks, runs)
    ]
    chance.shuffle(blocks)
    assert bytes_within(dict(blocks), runs) == len(covered[0] & covered[1])
    assert bytes_within(dict(blocks), []) == bytes_within({}, runs) == 0


def test_objects_in_iterators_and_mappings_are_listed():
    torch = pytest.importorskip("torch")
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
    optimizer = torch.optim.SGD(layers.parameters())
    named = listed(
        iter([{"steps": optimizer}, layers.children(), (one for one in [torch.ones(1)])])
    )
    assert named[:-1] == [optimizer, *layers]
    assert listed(layers) == [layers]
    with pytest.raises(OptionError, match="'weights' cannot sleep"):
        listed([optimizer, "weights"])
