"""The adapter of a framework and a device, both by name."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.locks import new_reentrant_lock

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

_finding = new_reentrant_lock()


def adapter_of(device: object, framework: str = "torch") -> Callable[[], Adapter]:
    """Finds the adapter of a device, when the session opens."""
    name = str(device)
    _, _, index = name.partition(":")
    number = int(index) if index else None
    find: Callable[[], Adapter]
    # Each adapter brings modules that programs on the other devices need not wait for.
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
        with _finding:  # two threads would make, and compile, two of what there is one of
            return find()

    return find_alone


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    # A process that was forked after CUDA was initialized cannot use it, nor ask the driver.
    return not torch.cuda._is_in_bad_fork() and bool(torch.cuda.is_available())


def cuda_adapter(adapter: Adapter) -> "TorchCuda | None":
    """Return the adapter if it is PyTorch's of a CUDA device, and None otherwise."""
    if not adapter.device.startswith("cuda"):
        return None
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

    return adapter if isinstance(adapter, TorchCuda) else None
