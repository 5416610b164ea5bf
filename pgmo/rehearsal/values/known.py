"""Record of storages on the card with known values, and host tensors in their memory."""

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

_HOST = torch.device("cpu")


class KnownStorages:
    """Addresses of live storages with known values, which were computed or copied.

    Memory that is freed and allocated again is unknown.
    """

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}

    def __contains__(self, tensor: Tensor) -> bool:
        if not tensor.numel():
            return True
        address = address_of(tensor)
        storage = self._storages.get(address)
        if storage is None:
            return False
        if storage.expired():  # type: ignore[no-untyped-call]
            del self._storages[address]
            return False
        return True

    def add(self, tensor: Tensor) -> None:
        """Mark the tensor's whole storage as known."""
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._storages[storage.data_ptr()] = reference

    def forget(self, tensor: Tensor) -> None:
        """Mark the tensor's storage as unknown."""
        self._storages.pop(address_of(tensor), None)


def address_of(tensor: Tensor) -> int:
    """Return the address of the tensor's storage; 0 if its layout has none."""
    if tensor.layout is not torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def readable(tensor: Tensor) -> bool:
    """Return whether `on_host` supports the tensor."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def covers(tensor: Tensor) -> bool:
    """Return whether the tensor covers its whole storage."""
    return tensor.nbytes == tensor.untyped_storage().nbytes()


def on_host(tensor: Tensor) -> Tensor:
    """Return a host tensor in the memory of a stub card's tensor, which must outlive the result."""
    made = torch.empty(0, dtype=tensor.dtype, device=_HOST)
    return made.set_(_memory(tensor), tensor.storage_offset(), tensor.size(), tensor.stride())


def whole(tensor: Tensor) -> Tensor:
    """Return the tensor's whole storage as a host tensor of one dimension and the same type."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return torch.empty(0, dtype=tensor.dtype, device=_HOST).set_(_memory(tensor), 0, (count,), (1,))


def _memory(tensor: Tensor) -> Any:
    """Return a host storage in the memory of a tensor's storage."""
    storage = tensor.untyped_storage()
    return torch._C._construct_storage_from_data_pointer(
        storage.data_ptr(), _HOST, storage.nbytes()
    )
