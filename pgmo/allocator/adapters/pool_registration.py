"""Registrations of memory pools with NCCL, reported to the CUDA adapter.

NCCL registers whole segments of a pool, and each has to be one allocation of the driver. So PyTorch
serves a pool from its registration on. Blocks that pgmo has served before are not registered: NCCL
copies them as it does tensors outside of the pool.
"""

import ctypes
from functools import wraps
from typing import Any

from pgmo.allocator.build.library import AdapterLibrary


def report_registrations(library: AdapterLibrary) -> None:
    """Report registrations of pools to the adapter from now on."""
    import torch

    distributed = getattr(torch._C, "_distributed_c10d", None)
    group = getattr(distributed, "ProcessGroupNCCL", None)
    original = getattr(group, "register_mem_pool", None)
    if group is None or original is None or hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def register_mem_pool(self: Any, pool: Any, *arguments: Any, **options: Any) -> Any:
        first, second = pool.id
        for device in range(torch.cuda.device_count()):
            library.ask("pgmo_leave_pool", device, ctypes.c_uint64(first), ctypes.c_uint64(second))
        return original(self, pool, *arguments, **options)

    group.register_mem_pool = register_mem_pool
