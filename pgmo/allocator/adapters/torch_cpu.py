"""PyTorch on the CPU: installs the adapter of csrc/adapters/torch_cpu.cpp under `torch`."""

import contextlib
import ctypes
import os
from functools import cache
from pathlib import Path

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter, Memory, new_engine
from pgmo.allocator.build.compile import AdapterSource
from pgmo.allocator.build.library import load_adapter
from pgmo.errors import AdapterError

ALIGNMENT = 64
"""Of every block, in bytes: what c10's own CPU allocator gives and vectorised kernels rely on."""

# From glibc's malloc.h, and the least and the most that it adjusts the threshold to by itself.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MALLOC_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_SPARING_LIMIT, _GLIBC_LIMIT = 128 << 10, 32 << 20


class TorchCpu(Adapter):
    """The engine under PyTorch's CPU allocator. One per process: see `torch_cpu`."""

    name = "torch"
    device = "cpu"
    alignment = ALIGNMENT

    def __init__(self) -> None:
        source = adapter_source()
        self.version = source.version
        self._library = load_adapter(source)
        self.engine = new_engine()
        self.engine.lend_idle(True)

    def install(self) -> None:
        """Puts the engine under torch's current CPU allocator; nothing happens if it is there.

        Raises:
            AdapterError: when torch refuses, with its reason.
        """
        self._library.call(
            "pgmo_install",
            ctypes.c_void_p(_core.engine_api()),
            ctypes.c_void_p(self.engine.handle),
        )

    def uninstall(self) -> None:
        """Takes the engine away again. Tensors made under it stay valid and free their blocks.

        Raises:
            AdapterError: when somebody has put another allocator on top meanwhile.
        """
        self._library.call("pgmo_uninstall")

    def take_arena(self, size: int, stream: int) -> Memory:
        """Takes one block of `size` bytes from the allocator beneath; there is one stream.

        Raises:
            AdapterError: when the allocator beneath has not so much memory.
        """
        memory = Memory()
        self._library.call("pgmo_take_arena", ctypes.c_size_t(size), ctypes.byref(memory))
        return memory

    def take_spill(self, size: int) -> Memory:
        """There is no other memory than the host's.

        Raises:
            AdapterError: always.
        """
        raise AdapterError("the CPU's memory is the host's: there is nowhere to spill to")

    def empty_cache(self, *, pages: bool = False) -> None:
        """Returns freed memory to the system, so that recording and replay never hold both.

        That of arenas that serve no more, too, but for the blocks that still live there.
        """
        self.engine.return_idle()

    def spare_memory(self, on: bool) -> None:
        """Lets the allocator beneath return large blocks to the system as soon as they are freed.

        While nothing is served from slots, the peak of the whole process is that of the allocator
        beneath, and glibc keeps freed blocks of up to 32 MiB in a heap that fragments. It holds for
        all of the process, NumPy's arrays among them, and costs page faults, so only a few
        iterations have it. glibc's own adjustment of that limit cannot be switched on again, so
        afterwards the limits stay where it would have taken them.
        """
        if any(name in os.environ for name in _MALLOC_VARIABLES):
            return  # somebody has chosen
        with contextlib.suppress(AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            limit = _SPARING_LIMIT if on else _GLIBC_LIMIT
            mallopt(_M_MMAP_THRESHOLD, limit)
            mallopt(_M_TRIM_THRESHOLD, 2 * limit)


@cache
def torch_cpu() -> TorchCpu:
    """The adapter of this process, compiled and loaded on first use; torch must be importable.

    Raises:
        AdapterError: when torch or a compiler is missing, or compiling fails.
    """
    return TorchCpu()


def adapter_source() -> AdapterSource:
    """Return the source and flags to compile the adapter against the installed torch.

    Raises:
        AdapterError: when torch is missing.
    """
    try:
        import torch
    except ImportError as error:
        raise AdapterError(
            "pgmo.optimize() needs PyTorch, which is not installed: pip install torch"
        ) from error
    version = str(torch.__version__)
    root = Path(torch.__file__).parent
    macro = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    include = root / "include"
    flags = (macro, "-isystem", str(include), f"-L{root / 'lib'}", "-lc10")
    what = f"PyTorch {version} (CPU)"
    return AdapterSource("torch_cpu", what, version, flags, headers=include, abi=(macro,))
