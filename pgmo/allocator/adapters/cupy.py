"""Adapter for CuPy: installs the engine over CuPy's current allocator.

    with pgmo.optimize(framework="cupy") as session:       installs it, and uninstalls it at the end
    cupy.cuda.set_allocator(pgmo.cupy_allocator())         installs it permanently

Nothing is compiled. The allocator beneath (`upstream`) may be CuPy's pool, another allocator
(managed memory, CUDA's asynchronous pool, RMM), or plain `cudaMalloc`. If the program enters
`cupy.cuda.using_allocator` after pgmo is installed, requests inside do not reach pgmo.
"""

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter, Memory
from pgmo.allocator.adapters.cupy_allocator import current_or_over_it, exchange, is_out_of_memory
from pgmo.allocator.adapters.device_memory import CONCURRENT_MANAGED_ACCESS, DeviceMemory
from pgmo.allocator.adapters.managed_hints import Hints
from pgmo.errors import AdapterError
from pgmo.profiler.tagging.cupy_module import cupy_device, imported_cupy

ALIGNMENT = 512
"""Alignment of every block in bytes, as in `cudaMalloc` and CuPy's pools."""

_held: dict[int, tuple[object, Callable[[], object] | None]] = {}
"""Arenas and spilled memory, by context number, each with a callback to run before its free."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_held))  # arrays may outlive this module

_contexts = itertools.count(1)


def _return_memory(context: int) -> None:
    """Free memory. The engine calls this as `give_back`, perhaps while an array is destroyed."""
    _memory, before = _held.pop(context)
    if before is not None:
        before()


_give_back = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_return_memory)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_give_back))


class _Handle:
    """Stream in the protocol of CUDA's Python packages: version and handle."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class Cupy(Adapter):
    """Adapter of CuPy's allocator for one device. See `cupy_adapter`."""

    name = "cupy"
    alignment = ALIGNMENT

    def __init__(self, index: int) -> None:
        cupy = imported_cupy()
        self.index = index
        self.device = f"cuda:{index}"
        self.version = str(cupy.__version__)
        self._cuda = cupy.cuda
        self._allocator: _core.CupyAllocator | None = None
        # Not `new_engine`: after a second import, another route may serve. Each keeps its engine.
        self.engine = _core.Engine()
        self._route = _core.CupyRoute(self.engine)

    def install(self) -> None:
        """Wrap CuPy's current allocator, unless it is pgmo's already.

        Inside `cupy.cuda.using_allocator`, this wraps only the calling thread's allocator.
        """
        allocator = current_or_over_it(self._cuda)
        if self._cuda.get_allocator() is not allocator:
            exchange(self._cuda, allocator)
        if self._allocator is not allocator:
            self._detach()
            self._route.forget_streams()  # numbers of an earlier session or of the parent process
            self._allocator = allocator
        allocator.attach(self.index, self._route)

    def uninstall(self) -> None:
        """Uninstall the adapter, unless it stays in use. Existing arrays stay valid.

        Raise `AdapterError` if CuPy's allocator is no longer pgmo's.
        """
        allocator = self._allocator
        self._detach()
        if allocator is None or allocator.serves or allocator.stays:
            return
        if self._cuda.get_allocator() is not allocator:
            raise AdapterError(
                "CuPy's allocator was replaced while the session was open, or this thread has "
                "another allocator"
            )
        exchange(self._cuda, allocator.upstream)

    def _detach(self) -> None:
        if self._allocator is not None:
            self._allocator.detach(self.index)
            self._allocator = None

    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Allocate a block of the allocator beneath; return None if the stream was never used."""
        handle = self._route.handle(stream)
        if handle is None:
            return None
        known = self._cuda.Stream
        with (
            self._cuda.Device(self.index),
            known.from_external(_Handle(handle)) if handle else known.null,
        ):
            return self._take(size)

    def take_spill(self, size: int) -> Memory:
        """Allocate a block of unified memory that stays on the host."""
        device = self._cuda.Device(self.index)
        with device:
            self._card().require_managed()
            try:
                taken = self._cuda.malloc_managed(size)
            except (MemoryError, self._cuda.runtime.CUDARuntimeError) as error:
                raise AdapterError(f"no unified memory is available: {error}") from None
            memory = self._hold(taken, size, device.synchronize)
        Hints(self.index).keep_on_host(memory.base, memory.bytes)
        return memory

    @property
    def _upstream(self) -> Any:
        return self._allocator.upstream if self._allocator else self._cuda.get_allocator()

    def _take(self, size: int) -> Memory:
        upstream = self._upstream
        try:
            taken = upstream(size)
            if taken.ptr % ALIGNMENT:  # RMM aligns to fewer bytes
                taken = upstream(size + ALIGNMENT)
        except (MemoryError, RuntimeError) as error:
            known = isinstance(error, self._cuda.runtime.CUDARuntimeError)
            if not known and not is_out_of_memory(error):
                raise
            raise AdapterError(f"CuPy's allocator: {error}") from None
        return self._hold(taken, size, None)

    def _hold(self, taken: Any, size: int, before: Callable[[], object] | None) -> Memory:
        context = next(_contexts)
        _held[context] = (taken, before)
        return Memory(
            base=-(-taken.ptr // ALIGNMENT) * ALIGNMENT,
            bytes=size,
            give_back=ctypes.cast(_give_back, ctypes.c_void_p).value,
            context=context,
        )

    def empty_cache(self, *, pages: bool = False) -> None:
        """Free the cached blocks of the allocator beneath, if it is a pool of CuPy."""
        free = getattr(getattr(self._upstream, "__self__", None), "free_all_blocks", None)
        if free is not None:
            with self._cuda.Device(self.index):
                free()

    def _card(self) -> DeviceMemory:
        """Return the memory of the device, which must be CUDA's current device."""
        runtime = self._cuda.runtime
        free, total = runtime.memGetInfo()
        concurrent = runtime.deviceGetAttribute(CONCURRENT_MANAGED_ACCESS, self.index)
        return DeviceMemory(
            self.device, free=int(free), total=int(total), concurrent=bool(concurrent)
        )

    def advise(self, text: str) -> None:
        """Set the text to append to out-of-memory errors, as a note (PEP 678)."""
        self._route.advice = text


_adapters: dict[int, Cupy] = {}


def cupy_adapter(index: int | None = None) -> Cupy:
    """Return this process's adapter for a CUDA device; None for the current device."""
    index = cupy_device(imported_cupy(), index)
    if index not in _adapters:
        _adapters[index] = Cupy(index)
    return _adapters[index]


def cupy_allocator() -> _core.CupyAllocator:
    """Return an allocator of pgmo for `cupy.cuda.set_allocator`.

    `pgmo.optimize(framework="cupy")` does not need this call: a session installs the allocator, and
    uninstalls it at the end. If the program has installed the allocator, sessions use it and keep
    it installed. While no session is open, the allocator beneath serves all requests.

    Returns:
        CuPy's current allocator if it is pgmo's, else a new allocator on top of it. Called with a
        size in bytes, it returns a `cupy.cuda.MemoryPointer`.

    Raises:
        AdapterError: if CuPy is missing.

    Example:
        >>> cupy.cuda.set_allocator(pgmo.cupy_allocator())  # doctest: +SKIP
    """
    allocator = current_or_over_it(imported_cupy().cuda)
    allocator.stays = True
    return allocator
