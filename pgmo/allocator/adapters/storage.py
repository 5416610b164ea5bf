"""Looks at and moves the memory under tensors, through csrc/adapters/torch_storage.hpp."""

import ctypes
from dataclasses import dataclass

from pgmo.allocator.build.library import AdapterLibrary


class _View(ctypes.Structure):
    """`pgmo_storage_view`."""

    _fields_ = (
        ("storage", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("storage_uses", ctypes.c_uint32),
        ("tensor_uses", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("familiar", ctypes.c_int32),
    )


@dataclass(frozen=True)
class StorageView:
    """A tensor's storage at one moment.

    Args:
        storage: identifies the storage.
        data: address of its memory.
        bytes: of the storage.
        storage_uses: how many tensors, and others, hold the storage.
        tensor_uses: how many hold the tensor that was asked for.
        familiar: whether the block is freed by the framework's allocator or by pgmo, and by nobody
            else (another process that shares it, say).

    Example:
        >>> StorageView(1, 4096, 512, 1, 1, True).bytes
        512
    """

    storage: int
    data: int
    bytes: int
    storage_uses: int
    tensor_uses: int
    familiar: bool


class StorageMover:
    """The adapter's functions for one device.

    Example:
        >>> mover = torch_cuda(0).mover  # doctest: +SKIP
    """

    def __init__(self, library: AdapterLibrary, device: int) -> None:
        self._library = library
        self._device = device

    def view(self, tensor: int) -> StorageView | None:
        """What is under a tensor (its `_cdata`); None where there is no memory.

        Raises:
            AdapterError: when the adapter is not installed.
        """
        view = _View()
        self._library.call("pgmo_storage", ctypes.c_void_p(tensor), ctypes.byref(view))
        if not view.storage or not view.data:
            return None
        return StorageView(
            view.storage,
            view.data,
            view.bytes,
            view.storage_uses,
            view.tensor_uses,
            bool(view.familiar),
        )

    def synchronize(self) -> None:
        """Waits for everything that the device was told to do."""
        self._library.call("pgmo_synchronize", self._device)

    def park(self, storage: int, host: int) -> None:
        """Copies a storage's bytes to an address of the host's, and frees its block."""
        self._library.call("pgmo_park", ctypes.c_void_p(storage), ctypes.c_void_p(host))

    def unpark(self, storage: int, host: int, address: int | None) -> None:
        """Copies them back: to an address from the engine, or to a block of the framework's.

        Raises:
            AdapterError: when that fails; the address has been released then.
        """
        self._library.call(
            "pgmo_unpark",
            self._device,
            ctypes.c_void_p(storage),
            ctypes.c_void_p(address),
            ctypes.c_void_p(host),
        )

    def move(self, storage: int, address: int) -> None:
        """Moves a storage to an address from the engine, and frees its block.

        Raises:
            AdapterError: when that fails; the address has been released then.
        """
        self._library.call(
            "pgmo_move", self._device, ctypes.c_void_p(storage), ctypes.c_void_p(address)
        )
