"""PyTorch: segments of its own caching allocator, in unified memory."""

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

from pgmo.allocator.adapters.card import Card
from pgmo.allocator.adapters.torch_cuda import adapter_library, torch_cuda
from pgmo.errors import AdapterError

if TYPE_CHECKING:
    from pgmo.allocator.build.library import AdapterLibrary


class TorchManaged:
    """Sends what PyTorch requests on one device, from any thread, to unified memory.

    A pool (`torch.cuda.MemPool`) whose segments come from `cudaMallocManaged`: all else about the
    caching allocator is as ever. Tensors made under it stay valid.

    Args:
        index: of the device; None for the current one.

    Raises:
        AdapterError: when torch, CUDA or the adapter cannot be had, or torch's allocator is none
            that has pools.

    Example:
        >>> pool = TorchManaged(0)  # doctest: +SKIP
        >>> pool.begin()  # doctest: +SKIP
        >>> pool.end()  # doctest: +SKIP
    """

    def __init__(self, index: int | None = None) -> None:
        adapter = torch_cuda(index)
        import torch

        backend: str = torch.cuda.memory.get_allocator_backend()
        if backend != "native":
            raise AdapterError(
                "unified memory needs PyTorch's own caching allocator, whose pools can have it, "
                f"but the current one is {backend!r}; unset PYTORCH_CUDA_ALLOC_CONF, or do not "
                "exchange the allocator"
            )
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.index = adapter.index
        self.device = adapter.device
        self._library = adapter_library()
        self._pool: Any = None

    def card(self) -> Card:
        """The device's memory now."""
        return torch_card(self._library, self.index)

    def begin(self) -> None:
        """Sends requests to a new pool."""
        import torch

        with torch.cuda.device(self.index):
            pool = torch.cuda.MemPool(_allocator().allocator())
        # Never destroyed: that ends the process while another pool is in use. The adapter gives the
        # pool up instead.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
        self._library.call("pgmo_managed_begin", self.index, *_number(pool))
        self._pool = pool

    def end(self) -> None:
        """Sends them where they went before. What is cached goes back; what lives stays."""
        pool, self._pool = self._pool, None  # torch keeps it until its last block is freed
        self._library.call("pgmo_managed_end", self.index, *_number(pool))

    def renew(self) -> None:
        """Gives back what the pool has cached: torch empties no pool that is in use."""
        if self._pool is None:  # the program's own block has ended, and a session in it goes on
            return
        self.end()
        self.begin()

    def held(self, *, reset: bool = False) -> tuple[int, int]:
        """Bytes of unified memory held now, and the most since the last reset."""
        now, peak = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.ask(
            "pgmo_managed_bytes", self.index, int(reset), ctypes.byref(now), ctypes.byref(peak)
        )
        return now.value, peak.value


def torch_card(library: "AdapterLibrary", index: int) -> Card:
    """The memory of one of PyTorch's CUDA devices.

    Args:
        library: the adapter.
        index: of the device.

    Raises:
        AdapterError: when the device does not answer.

    Example:
        >>> torch_card(adapter_library(), 0).concurrent  # doctest: +SKIP
        True
    """
    out = (ctypes.c_uint64 * 3)()
    library.call("pgmo_card", index, out)
    return Card(f"cuda:{index}", free=out[0], total=out[1], concurrent=bool(out[2]))


@cache
def _allocator() -> Any:
    """Of all pools, and kept for good: blocks of a pool outlive it."""
    import torch

    return torch.cuda.memory.CUDAPluggableAllocator(
        str(adapter_library().path), "pgmo_managed_alloc", "pgmo_managed_free"
    )


def _number(pool: Any) -> tuple[ctypes.c_uint64, ctypes.c_uint64]:
    first, second = pool.id
    return ctypes.c_uint64(first), ctypes.c_uint64(second)
