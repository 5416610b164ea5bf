"""Copies of fake tensors that share storages as the originals do."""

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from pgmo.recompute.capture.compat import storage_key


class Storages:
    """One-to-one map from storages of originals to storages of copies.

    Example:
        >>> storages = Storages()
        >>> one = torch.empty(4)
        >>> storages.same(one, other := torch.empty(4)), storages.same(one[1:], torch.empty(4)[1:])
        (True, False)
    """

    def __init__(self) -> None:
        self._of: dict[int, torch.UntypedStorage] = {}
        self._stand_for: dict[int, int] = {}

    def same(self, one: Tensor, other: Tensor) -> bool:
        """Map the storage of `one` to the storage of `other`; return whether this is one-to-one."""
        ours, theirs = storage_key(one), storage_key(other)
        known = self._of.setdefault(ours, other.untyped_storage())
        return id(known) == theirs and self._stand_for.setdefault(theirs, ours) == ours

    def copy(self, one: Tensor) -> Tensor:
        """Return a fake tensor of the same layout in the mapped storage, which may be new."""
        key = storage_key(one)
        storage = self._of.get(key)
        if storage is None:
            size = one.untyped_storage().nbytes()
            storage = torch.UntypedStorage(size, device="meta")  # type: ignore[no-untyped-call]
            self._of[key] = storage
        if not isinstance(one, FakeTensor):
            raise TypeError(f"a {type(one).__name__} has contents")
        plain = torch.empty(0, dtype=one.dtype, device="meta")
        plain.set_(storage, one.storage_offset(), one.shape, one.stride())
        return FakeTensor(one.fake_mode, plain, one.device)
