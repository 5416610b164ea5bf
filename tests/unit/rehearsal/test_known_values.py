"""Tests of the record of storages with known values, and of made-up masks."""

import torch

from pgmo.rehearsal.values.known import KnownStorages
from pgmo.rehearsal.values.made_up import share_of


def test_a_storage_is_known_until_it_is_freed_or_overwritten():
    known = KnownStorages()
    one, other = torch.zeros(4), torch.zeros(4)
    assert one not in known
    known.add(one[1:])
    assert one in known
    assert other not in known
    known.forget(one)
    assert one not in known


def test_memory_of_a_freed_storage_is_unknown():
    known = KnownStorages()
    buffer = torch.zeros(64)
    known.add(torch.from_numpy(buffer.numpy()))  # this storage is freed at once
    assert torch.from_numpy(buffer.numpy()) not in known


def test_tensors_without_elements_are_known():
    assert torch.zeros(0) in KnownStorages()


def test_half_of_an_unknown_mask_counts_as_true():
    assert [share_of(count) for count in (0, 1, 2, 10)] == [0, 1, 1, 5]
