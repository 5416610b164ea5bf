"""Adapter for PyTorch on the CPU, from csrc/adapters/torch_cpu.cpp."""

import contextlib
import ctypes
import os
from functools import cache

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter, Memory, new_engine
from pgmo.allocator.adapters.operator_calls import OperatorCalls
from pgmo.allocator.adapters.torch_source import cpu_source
from pgmo.allocator.build.library import load_adapter
from pgmo.errors import AdapterError

ALIGNMENT = 64
"""Alignment of every block in bytes, as in c10's CPU allocator. Vectorised kernels need it."""

# Parameters of `mallopt` in glibc's malloc.h; and the smallest and largest mmap threshold in bytes
# that glibc chooses by itself.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MALLOC_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_SPARING_LIMIT, _GLIBC_LIMIT = 128 << 10, 32 << 20


class TorchCpu(Adapter):
    """Adapter of PyTorch's CPU allocator. `torch_cpu` returns the process's only instance."""

    name = "torch"
    device = "cpu"
    alignment = ALIGNMENT

    def __init__(self) -> None:
        source = cpu_source()
        self.version = source.version
        self._library = load_adapter(source)
        self.operators = OperatorCalls(self._library)
        self.engine = new_engine()
        self.engine.lend_idle(True)

    def install(self) -> None:
        """Install the engine over torch's current CPU allocator, unless it is installed."""
        engine = ctypes.c_void_p(_core.engine_api()), ctypes.c_void_p(self.engine.handle)
        self._library.call("pgmo_install", *engine)

    def uninstall(self) -> None:
        """Uninstall the engine. Existing tensors stay valid, and can be freed as before."""
        self._library.call("pgmo_uninstall")

    def take_arena(self, size: int, stream: int) -> Memory:
        """Allocate a block of `size` bytes from the allocator beneath. The CPU has one stream."""
        memory = Memory()
        self._library.call("pgmo_take_arena", ctypes.c_size_t(size), ctypes.byref(memory))
        return memory

    def take_spill(self, size: int) -> Memory:
        """Raise `AdapterError`, because the CPU's memory is already on the host."""
        raise AdapterError("the CPU's memory is the host's: there is nowhere to spill to")

    def empty_cache(self, *, pages: bool = False) -> None:
        """Return malloc's free memory and idle pages of arenas to the system.

        While slots serve, pages of current arenas are left out.
        """
        self.engine.return_idle()

    def spare_memory(self, on: bool) -> None:
        """Set whether glibc returns large blocks to the system as soon as they are freed.

        While no slots serve, glibc would keep freed blocks of up to 32 MiB in a fragmented heap.
        The setting affects the whole process and costs page faults, so it is on only in recordings
        without a plan. Switching it off sets the mmap threshold to its largest value, because glibc
        cannot resume its own adjustment. If the user has set malloc's limits, nothing changes.
        """
        if any(name in os.environ for name in _MALLOC_VARIABLES):
            return
        with contextlib.suppress(AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            limit = _SPARING_LIMIT if on else _GLIBC_LIMIT
            mallopt(_M_MMAP_THRESHOLD, limit)
            mallopt(_M_TRIM_THRESHOLD, 2 * limit)


@cache
def torch_cpu() -> TorchCpu:
    """Return this process's adapter. The first call loads it, and compiles it if needed."""
    return TorchCpu()
