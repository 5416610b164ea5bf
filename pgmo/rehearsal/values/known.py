"""Which memory of the cards holds what was computed or copied, and a view of it from the host."""

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

_HOST = torch.device("cpu")


class KnownStorages:
    """Storages whose values are known, by their addresses, for as long as they live.

    Memory that is freed and given out again, by whomever, is not known any more.

    Example:
        >>> known, one = KnownStorages(), torch.ones(1)
        >>> known.add(one)
        >>> one in known, torch.zeros(1) in known
        (True, False)
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
        """Its whole storage is known from here on."""
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._storages[storage.data_ptr()] = reference

    def forget(self, tensor: Tensor) -> None:
        """Something unknown was written to its storage."""
        self._storages.pop(address_of(tensor), None)


def address_of(tensor: Tensor) -> int:
    """Where the storage begins; 0 where there is none."""
    if tensor.layout is not torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def readable(tensor: Tensor) -> bool:
    """Whether `on_host` shows what the tensor's values are."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def covers(tensor: Tensor) -> bool:
    """Whether the tensor is all of its storage."""
    return tensor.nbytes == tensor.untyped_storage().nbytes()


def on_host(tensor: Tensor) -> Tensor:
    """A tensor of the host in the same memory.

    Args:
        tensor: on a card of the stub; it has to outlive what is returned.
    """
    storage = tensor.untyped_storage()
    memory = torch._C._construct_storage_from_data_pointer(
        storage.data_ptr(), _HOST, storage.nbytes()
    )
    made = torch.empty(0, dtype=tensor.dtype, device=_HOST)
    return made.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def whole(tensor: Tensor) -> Tensor:
    """All of the tensor's storage, from the host, as a row of its type."""
    storage = tensor.untyped_storage()
    memory = torch._C._construct_storage_from_data_pointer(
        storage.data_ptr(), _HOST, storage.nbytes()
    )
    count = storage.nbytes() // tensor.element_size()
    return torch.empty(0, dtype=tensor.dtype, device=_HOST).set_(memory, 0, (count,), (1,))
