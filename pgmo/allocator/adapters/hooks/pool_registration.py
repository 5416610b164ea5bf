"""Registrations of memory pools with NCCL, reported to the CUDA adapter.

NCCL registers whole segments of a pool, and each segment must be one allocation of the driver. So
PyTorch's own allocator serves a pool from its registration on. Blocks that pgmo served before are
not registered: NCCL copies them, like tensors outside of the pool. pgmo warns about the first pool
with unregistered blocks.
"""

import ctypes
from functools import wraps
from typing import Any

from pgmo.allocator.build.library import AdapterLibrary
from pgmo.user_warnings import warn_user

_NOT_REGISTERED = (
    "pgmo: a pool that is registered with NCCL has tensors in pages. NCCL cannot register pages, "
    "so it copies these tensors. Register the pool before tensors are made in it, or set "
    "PGMO_POOLS=0"
)


def report_registrations(library: AdapterLibrary) -> None:
    """Report registrations of pools to the adapter from now on."""
    import torch

    distributed = getattr(torch._C, "_distributed_c10d", None)
    group = getattr(distributed, "ProcessGroupNCCL", None)
    original = getattr(group, "register_mem_pool", None)
    if group is None or original is None or hasattr(original, "__wrapped__"):
        return
    warned = False

    @wraps(original)
    def register_mem_pool(self: Any, pool: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal warned
        first, second = (ctypes.c_uint64(part) for part in pool.id)
        late = [
            library.ask("pgmo_leave_pool", device, first, second)
            for device in range(torch.cuda.device_count())
        ]
        if any(late) and not warned:
            warned = True
            warn_user(_NOT_REGISTERED)
        return original(self, pool, *arguments, **options)

    group.register_mem_pool = register_mem_pool
