"""`pgmo.managed`: unified memory for all requests of PyTorch."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pgmo.allocator.adapters.frameworks import check_framework, check_managed
from pgmo.allocator.adapters.torch_cuda import adapter_library, torch_cuda
from pgmo.errors import AdapterError, OptionError
from pgmo.units import format_bytes

_active: dict[str, "Managed"] = {}
"""Unified memory in use now, by device."""


class Managed:
    """Unified memory on one device, made by `managed`.

    A pool (`torch.cuda.MemPool`) whose segments come from `cudaMallocManaged` serves the requests
    of all threads. The caching allocator is otherwise unchanged.

    Args:
        index: index of the device; None for the current device.

    Attributes:
        index: index of the device.
        card: the device's memory when this object was made.

    Raises:
        AdapterError: if torch, CUDA or the adapter is missing, torch's allocator has no pools, or
            unified memory cannot exceed the device's memory.
    """

    def __init__(self, index: int | None = None) -> None:
        adapter = torch_cuda(index)
        import torch

        backend: str = torch.cuda.memory.get_allocator_backend()
        if backend != "native":
            raise AdapterError(
                "unified memory needs the pools of PyTorch's own caching allocator, but the "
                f"current allocator is {backend!r}; unset PYTORCH_ALLOC_CONF and "
                "PYTORCH_CUDA_ALLOC_CONF, or do not replace the allocator"
            )
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.index = adapter.index
        self.card = adapter.card()
        self.card.require_managed()
        self._library = adapter.library
        self._pool: Any = None
        self._peak_at_end: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes of unified memory held now."""
        return self._held()[0]

    @property
    def peak(self) -> int:
        """Peak bytes of unified memory since `open`, until `close`."""
        return self._held()[1] if self._peak_at_end is None else self._peak_at_end

    @property
    def oversubscription(self) -> float:
        """Ratio of the peak to `card.free`; above 1, pages moved over the bus."""
        return self.card.oversubscription(self.peak)

    def open(self) -> None:
        """Route PyTorch's requests to unified memory."""
        self._held(reset=True)
        self._begin()

    def close(self) -> None:
        """Route requests as before. Cached memory is freed; live blocks stay."""
        self._end()
        self._peak_at_end = self._held()[1]

    def renew(self) -> None:
        """Free the cached memory by switching to a new pool: torch never empties a pool in use."""
        if self._pool is not None:  # None if `managed` ended before the session
            self._end()
            self._begin()

    def _begin(self) -> None:
        import torch

        with torch.cuda.device(self.index):
            pool = torch.cuda.MemPool(_allocator().allocator())
        # Never destroy the pool, because that aborts the process while another pool is in use. The
        # adapter releases the pool instead.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
        self._library.call("pgmo_managed_begin", self.index, *_number(pool))
        self._pool = pool

    def _end(self) -> None:
        pool, self._pool = self._pool, None  # torch keeps the pool until its last block is freed
        self._library.call("pgmo_managed_end", self.index, *_number(pool))

    def _held(self, *, reset: bool = False) -> tuple[int, int]:
        """Return the bytes of unified memory held now, and their peak since the last reset."""
        now, peak = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.ask(
            "pgmo_managed_bytes", self.index, int(reset), ctypes.byref(now), ctypes.byref(peak)
        )
        return now.value, peak.value

    def __str__(self) -> str:
        return (
            f"pgmo: {format_bytes(self.peak)} of unified memory on {self.card.device}, "
            f"{self.oversubscription:.2f} times the free {format_bytes(self.card.free)}"
        )


@cache
def _allocator() -> Any:
    """Return the allocator of all pools. It is never destroyed, because blocks outlive pools."""
    import torch

    return torch.cuda.memory.CUDAPluggableAllocator(
        str(adapter_library().path), "pgmo_managed_alloc", "pgmo_managed_free"
    )


def _number(pool: Any) -> tuple[ctypes.c_uint64, ctypes.c_uint64]:
    first, second = pool.id
    return ctypes.c_uint64(first), ctypes.c_uint64(second)


def in_use(device: str) -> Managed | None:
    """Return the open `managed` block of a device, or None."""
    return _active.get(device)


@contextmanager
def managed(*, device: object = None, framework: str = "torch") -> Iterator[Managed]:
    """Serve PyTorch's requests from unified memory, which may be larger than the card's memory.

    PyTorch's own allocator caches as before, but its segments come from `cudaMallocManaged`, for
    requests of all threads. Memory moves to the card when a kernel touches it, and back to the host
    when other memory needs the space. The moves are slow: `managed` is meant for profiling a model
    that does not fit. Existing tensors stay where they are. Tensors that are made inside `managed`
    stay valid afterwards. Captured graphs keep their own pools. A nested `managed` for the same
    device has no effect.

    A session that is opened inside `managed` uses unified memory for all requests and arenas, and
    no pages. Close the session before `managed` ends. At the end of a replayed iteration, the
    session prefetches to the card the slots that the next iteration needs first.

    Args:
        device: "cuda", "cuda:1", or a `torch.device`; by default the current CUDA device.
        framework: only "torch"; CuPy has its own unified memory.

    Yields:
        The unified memory, with its size and peak.

    Raises:
        OptionError: if an option is invalid.
        AdapterError: if PyTorch or a device is missing, PyTorch's caching allocator was replaced,
            or the device has no concurrent access to unified memory (Windows, WSL, cards before
            Pascal).

    Example:
        >>> with pgmo.managed() as memory:  # doctest: +SKIP
        ...     train_step(batch)
        >>> memory.oversubscription  # doctest: +SKIP
        1.28
    """
    check_managed(framework)
    check_framework("torch", device)
    if str(device) == "cpu":
        raise OptionError("unified memory is for CUDA devices; device='cpu' has no use for it")
    _, _, index = str(device).partition(":")
    made = Managed(int(index) if index else None)
    name = made.card.device
    if name in _active:
        yield _active[name]
        return
    made.open()
    _active[name] = made
    try:
        yield made
    finally:
        del _active[name]
        made.close()
