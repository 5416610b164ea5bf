"""Lookup of the adapter for a framework and a device, both by name."""

from typing import TYPE_CHECKING

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.locks import new_reentrant_lock

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

_finding = new_reentrant_lock()


def adapter_of(device: object, framework: str = "torch") -> Adapter:
    """Return the adapter of a device; None is the current CUDA device or, without CUDA, the CPU.

    Raise `AdapterError` if the framework or the device is missing, or no adapter can be built.
    """
    name = str(device)
    _, _, index = name.partition(":")
    number = int(index) if index else None
    with _finding:  # two threads could compile and make the adapter twice
        # Import each adapter only if needed, because its modules take time to load.
        if framework == "cupy":
            from pgmo.allocator.adapters.cupy import cupy_adapter

            return cupy_adapter(number)
        if name == "cpu" or (device is None and not _has_cuda()):
            from pgmo.allocator.adapters.torch_cpu import torch_cpu

            return torch_cpu()
        from pgmo.allocator.adapters.torch_cuda import torch_cuda

        return torch_cuda(number)


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    # A process forked after CUDA was initialized can neither use CUDA nor query the driver.
    return not torch.cuda._is_in_bad_fork() and bool(torch.cuda.is_available())


def cuda_adapter(adapter: Adapter) -> "TorchCuda | None":
    """Return the adapter if it is PyTorch's for a CUDA device; None for other adapters."""
    if not adapter.device.startswith("cuda"):
        return None
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

    return adapter if isinstance(adapter, TorchCuda) else None
