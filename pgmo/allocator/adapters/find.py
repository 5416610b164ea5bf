"""Lookup of the adapter for a framework and a device, both by name."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.locks import new_reentrant_lock

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

_finding = new_reentrant_lock()


def adapter_of(device: object, framework: str = "torch") -> Callable[[], Adapter]:
    """Return a function that finds the adapter of a device, to be called when the session opens.

    Args:
        device: "cpu", "cuda", "cuda:1", or a `torch.device`; None for the default.
        framework: "torch" or "cupy".
    """
    name = str(device)
    _, _, index = name.partition(":")
    number = int(index) if index else None
    find: Callable[[], Adapter]
    # Import each adapter only if needed, because its modules take time to load.
    if framework == "cupy":
        from pgmo.allocator.adapters.cupy import cupy_adapter

        find = functools.partial(cupy_adapter, number)
    elif name == "cpu" or (device is None and not _has_cuda()):
        from pgmo.allocator.adapters.torch_cpu import torch_cpu

        find = torch_cpu
    else:
        from pgmo.allocator.adapters.torch_cuda import torch_cuda

        find = functools.partial(torch_cuda, number)

    def find_alone() -> Adapter:
        with _finding:  # two threads could compile and make the adapter twice
            return find()

    return find_alone


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    # A process forked after CUDA was initialized can neither use CUDA nor query the driver.
    return not torch.cuda._is_in_bad_fork() and bool(torch.cuda.is_available())


def cuda_adapter(adapter: Adapter) -> "TorchCuda | None":
    """Return the adapter if it is PyTorch's for a CUDA device, else None."""
    if not adapter.device.startswith("cuda"):
        return None
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

    return adapter if isinstance(adapter, TorchCuda) else None
