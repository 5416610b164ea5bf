"""PyTorch on CUDA without a compiler: the prebuilt plug-in of csrc/plugin.

    torch.cuda.memory.change_current_allocator(plugin_allocator())    before CUDA starts

It is the second best way. The adapter (torch_cuda.py) leaves torch's own allocator underneath, and
needs a C++ compiler and CUDA's headers; the plug-in is part of `pgmo._core` and replaces torch's
allocator by the driver's stream-ordered memory pool, with which some of torch stops working.
"""

import ctypes
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pgmo import _core
from pgmo.allocator.framework import Memory
from pgmo.allocator.library import AdapterLibrary
from pgmo.errors import AdapterError

ALIGNMENT = 512
"""Of every block, in bytes: what torch's own CUDA allocator gives."""

LIMITS: tuple[str, ...] = (
    "torch.cuda.memory_allocated(), max_memory_allocated(), memory_reserved(), memory_stats(), "
    "memory_summary(), reset_peak_memory_stats(), memory_snapshot() and _record_memory_history() "
    "raise RuntimeError",
    "torch.cuda.MemPool raises RuntimeError",
    'torch.compile(mode="reduce-overhead") does not work, and in old versions of PyTorch no mode',
    "torch.backends.cudnn.benchmark = True raises RuntimeError at the first convolution",
    "sharing CUDA tensors with other processes raises RuntimeError",
    "expandable segments and the other settings of PYTORCH_CUDA_ALLOC_CONF have no effect",
    "out of memory is a RuntimeError with torch's text, not a torch.OutOfMemoryError",
    "other GPUs have no peer access to its memory",
    "long-lived blocks such as optimizer state stay where they were born",
)
"""What does not work while the plug-in is torch's allocator."""

_WARNING = """\
pgmo's prebuilt plug-in is going to be PyTorch's CUDA allocator. With it:
{limits}
Nothing of this applies to pgmo's adapter, which needs a C++20 compiler (Debian, Ubuntu: apt \
install g++ / Fedora: dnf install gcc-c++ / conda: conda install gxx) and CUDA's headers (those \
that come with triton will do). With them, pgmo.optimize(device="cuda") needs no call before CUDA \
starts."""

_HOOKS: Mapping[str, str] = {
    "set_init_fn": "pgmo_plugin_init",
    "set_reset_fn": "pgmo_plugin_reset",
    "set_memory_fraction_fn": "pgmo_plugin_memory_fraction",
    "set_base_alloc_fn": "pgmo_plugin_base",
    "set_record_stream_fn": "pgmo_plugin_record_stream",
    "set_begin_allocate_to_pool": "pgmo_plugin_begin_pool",
    "set_end_allocate_to_pool_fn": "pgmo_plugin_end_pool",
    "set_release_pool": "pgmo_plugin_release_pool",
}
"""The optional functions of torch's allocator object, and ours."""


class TorchPlugin:
    """The engine under the plug-in, for one device. One per process and device: `torch_plugin`.

    Args:
        device: ordinal of the CUDA device.
        version: PyTorch's.

    Example:
        >>> framework = torch_plugin(0)  # doctest: +SKIP
        >>> framework.install()  # doctest: +SKIP
    """

    name = "torch"
    alignment = ALIGNMENT
    fragments = False  # the driver's pool maps free pages anew, wherever they are
    hosts_guests = False
    yields = True

    def __init__(self, device: int, version: str) -> None:
        self.index = device
        self.device = f"cuda:{device}"
        self.version = version
        self._library = _library()
        # Tensors may outlive every Python object here, and their blocks are the engine's.
        self.engine = _core.Engine()
        self.engine.keep_forever()
        self.engine.yield_when_outgrown(self.yields)

    def install(self) -> None:
        """Routes this device's requests to the engine; it stays there, in bypass, for good.

        Raises:
            AdapterError: when the driver refuses, with its reason.
        """
        self._library.call(
            "pgmo_plugin_connect",
            self.index,
            ctypes.c_void_p(_core.engine_api()),
            ctypes.c_void_p(self.engine.handle),
        )

    def uninstall(self) -> None:
        """Nothing: torch does not let go of a pluggable allocator, and the engine is in bypass."""

    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Takes one block of `size` bytes for a stream, None when that was not used yet.

        Raises:
            AdapterError: when the device has not so much memory.
        """
        if not self._library.ask("pgmo_plugin_knows_stream", self.index, ctypes.c_uint64(stream)):
            return None
        memory = Memory()
        self._library.call(
            "pgmo_plugin_take_arena",
            self.index,
            ctypes.c_uint64(stream),
            ctypes.c_size_t(size),
            ctypes.byref(memory),
        )
        return memory

    def take_region(self, size: int) -> Memory:
        """Takes one block of `size` bytes that every stream may use at once.

        Raises:
            AdapterError: when the device has not so much memory.
        """
        memory = Memory()
        self._library.call(
            "pgmo_plugin_take_region", self.index, ctypes.c_size_t(size), ctypes.byref(memory)
        )
        return memory

    def relocation(self) -> None:
        """None: tensors cannot be moved without torch's headers."""

    def take_spill(self, size: int) -> Memory:
        """The plug-in takes memory from the driver's pool alone.

        Raises:
            AdapterError: always.
        """
        raise AdapterError(
            "plans that spill need the compiled adapter, not the prebuilt plug-in: "
            "`pgmo doctor` tells what it lacks"
        )

    def empty_cache(self) -> None:
        """Returns the driver's unused memory to the system, after waiting for the device."""
        self._library.ask("pgmo_plugin_empty_cache", self.index)

    def spare_memory(self, on: bool) -> None:
        """Nothing: the driver's pool joins free pieces by mapping them anew, so it hardly wastes.

        To return memory at every synchronisation would lower its peak no further, and would make
        each iteration map it again.
        """

    def poll(self) -> int:
        """Finishes the frees whose other streams are done; returns how many still wait."""
        return self._library.ask("pgmo_plugin_poll", self.index)

    def advise(self, text: str) -> None:
        """What out-of-memory errors say besides."""
        self._library.call("pgmo_plugin_set_advice", self.index, ctypes.c_char_p(text.encode()))

    def memory_stats(self) -> dict[str, int]:
        """Bytes of the driver's living blocks, arenas and the memory of captured graphs included.

        Example:
            >>> torch_plugin(0).memory_stats()  # doctest: +SKIP
            {'driver_bytes': 1073741824, 'graph_bytes': 0}
        """
        driver, graphs = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.ask(
            "pgmo_plugin_usage", self.index, ctypes.byref(driver), ctypes.byref(graphs)
        )
        return {"driver_bytes": driver.value, "graph_bytes": graphs.value}


@cache
def torch_plugin(device: int) -> TorchPlugin:
    """The plug-in's engine of a device, in this process. CUDA is started if it has not been.

    Raises:
        AdapterError: when `plugin_allocator()` is not torch's allocator.
    """
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call, unused-ignore]
    if not plugin_started():
        raise AdapterError(
            "pgmo's plug-in is not PyTorch's CUDA allocator; call "
            "torch.cuda.memory.change_current_allocator(plugin_allocator()) before CUDA starts"
        )
    return TorchPlugin(device, str(torch.__version__))


def plugin_started() -> bool:
    """Whether torch has started CUDA with the plug-in as its allocator.

    Example:
        >>> plugin_started()
        False
    """
    return bool(_library().ask("pgmo_plugin_started"))


@cache
def plugin_allocator() -> Any:
    """The plug-in as torch wants it, for `torch.cuda.memory.change_current_allocator`.

    Warns once of what does not work with it: `LIMITS`.

    Raises:
        AdapterError: without PyTorch for CUDA, or when this PyTorch lacks a hook that is needed.

    Example:
        >>> allocator = plugin_allocator()  # doctest: +SKIP
        >>> torch.cuda.memory.change_current_allocator(allocator)  # doctest: +SKIP
    """
    try:
        import torch
    except ImportError as error:
        raise AdapterError(
            "the plug-in needs PyTorch, which is not installed: pip install 'pgmo[torch]'"
        ) from error
    if not hasattr(torch._C, "_CUDAPluggableAllocator"):
        raise AdapterError(
            f"PyTorch {torch.__version__} was built without CUDA, so it has no allocator to "
            "replace; install a CUDA build"
        )
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        _core.__file__, "pgmo_plugin_alloc", "pgmo_plugin_free"
    )
    functions = ctypes.CDLL(_core.__file__)
    for hook, function in _HOOKS.items():
        setter = getattr(allocator._allocator, hook, None)  # type: ignore[attr-defined, unused-ignore]
        if setter is None:
            # Memory would be handed out again while another stream or a captured graph uses it.
            raise AdapterError(
                f"PyTorch {torch.__version__} does not have {hook}(), without which the plug-in "
                "is not safe; PyTorch 2.6 and later have it"
            )
        setter(ctypes.cast(functions[function], ctypes.c_void_p).value)
    limits = "\n".join(f"  - {limit}" for limit in LIMITS)
    warnings.warn(_WARNING.format(limits=limits), stacklevel=2)
    return allocator


@cache
def _library() -> AdapterLibrary:
    """The functions that `pgmo._core` exports."""
    return AdapterLibrary(Path(_core.__file__), "the prebuilt plug-in")
