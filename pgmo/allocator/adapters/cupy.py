"""CuPy: puts the engine under whichever allocator CuPy uses.

    with pgmo.optimize(framework="cupy") as session:       installs it, and takes it away again
    cupy.cuda.set_allocator(pgmo.cupy_allocator())         installs it for good

Nothing is compiled. The allocator beneath may be CuPy's pool, another one (managed memory, CUDA's
asynchronous pool, RMM), or none. What a thread requests inside of `cupy.cuda.using_allocator` does
not come here.
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
from pgmo.locks import new_lock
from pgmo.profiler.tagging.cupy_module import cupy_device, imported_cupy

ALIGNMENT = 512
"""Of every block, in bytes: what `cudaMalloc` and CuPy's pools give."""

_held: dict[int, tuple[object, Callable[[], object] | None]] = {}
"""Arenas by their context: the memory, and what has to be done before it goes back."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_held))  # arrays may outlive this module

_contexts = itertools.count(1)
_installing = new_lock()


def _return_memory(context: int) -> None:
    """The engine's `give_back`. It is only ever called by Python code of ours."""
    _memory, before = _held.pop(context)
    if before is not None:
        before()


_give_back = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_return_memory)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_give_back))


class _Handle:
    """A stream as the protocol of CUDA's Python packages has it: version and handle."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class Cupy(Adapter):
    """The engine under CuPy's allocator, for one device. See `cupy_adapter`."""

    name = "cupy"
    alignment = ALIGNMENT

    def __init__(self, index: int) -> None:
        cupy = imported_cupy()
        self.index = index
        self.device = f"cuda:{index}"
        self.version = str(cupy.__version__)
        self._cuda = cupy.cuda
        self._allocator: _core.CupyAllocator | None = None
        self.engine = _core.Engine()
        self._route = _core.CupyRoute(self.engine)

    def install(self) -> None:
        """Wraps CuPy's current allocator; nothing happens if that is ours already.

        Inside of `cupy.cuda.using_allocator` that is the one of this thread, and so is ours.
        """
        with _installing:
            allocator = current_or_over_it(self._cuda)
            if self._cuda.get_allocator() is not allocator:
                exchange(self._cuda, allocator)
            if self._allocator is not allocator:
                self._detach()
                self._route.forget_streams()  # a new process, or a new session
                self._allocator = allocator
            allocator.attach(self.index, self._route)

    def uninstall(self) -> None:
        """Takes the adapter away again. Arrays made under it stay valid and free their blocks.

        Raises:
            AdapterError: when somebody has put another allocator on top meanwhile.
        """
        with _installing:
            allocator = self._allocator
            self._detach()
            if allocator is None or allocator.serves or allocator.stays:
                return
            if self._cuda.get_allocator() is not allocator:
                raise AdapterError(
                    "CuPy's allocator was exchanged while the session was open, or is another one "
                    "on this thread; pgmo leaves it as it is, and passes on whatever still reaches "
                    "it"
                )
            exchange(self._cuda, allocator.upstream)

    def _detach(self) -> None:
        if self._allocator is not None:
            self._allocator.detach(self.index)
            self._allocator = None

    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Takes one block of `size` bytes on a stream from the allocator beneath.

        Raises:
            AdapterError: when the allocator beneath has not so much memory.
        """
        handle = self._route.handle(stream)
        if handle is None:
            return None
        with self._cuda.Device(self.index), self._stream_of(handle):
            return self._take(size)

    def _stream_of(self, handle: int) -> Any:
        """Return a context manager that makes a stream the current one."""
        stream = self._cuda.Stream
        if not handle:
            return stream.null
        if hasattr(stream, "from_external"):  # since CuPy 14, where the other one is deprecated
            return stream.from_external(_Handle(handle))
        return self._cuda.ExternalStream(handle)

    def take_spill(self, size: int) -> Memory:
        """Takes one block of unified memory, which stays on the host.

        Raises:
            AdapterError: when the device cannot use any beyond its own, or there is not so much.
        """
        cupy_card(self._cuda, self.index).require_managed()
        device = self._cuda.Device(self.index)
        with device:
            try:
                taken = self._cuda.malloc_managed(size)
            except (MemoryError, self._cuda.runtime.CUDARuntimeError) as error:
                raise AdapterError(f"no unified memory can be had: {error}") from None
            memory = self._hold(taken, size, device.synchronize)
        Hints(self.index).keep_on_host(memory.base, memory.bytes)
        return memory

    def _take(self, size: int) -> Memory:
        upstream = self._allocator.upstream if self._allocator else self._cuda.get_allocator()
        try:
            taken = upstream(size)
            if taken.ptr % ALIGNMENT:  # RMM aligns to less
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
        """Returns the pool's free blocks, so that recording and replay never hold both."""
        upstream = self._allocator.upstream if self._allocator else self._cuda.get_allocator()
        free = getattr(getattr(upstream, "__self__", None), "free_all_blocks", None)
        if free is not None:
            with self._cuda.Device(self.index):
                free()

    def advise(self, text: str) -> None:
        """Set the text that out-of-memory errors add, as a note (PEP 678)."""
        self._route.advice = text


def cupy_card(cuda: Any, index: int) -> DeviceMemory:
    """The memory of one of CuPy's devices.

    Args:
        cuda: the module `cupy.cuda`.
        index: of the device.
    """
    with cuda.Device(index):
        free, total = cuda.runtime.memGetInfo()
    concurrent = cuda.runtime.deviceGetAttribute(CONCURRENT_MANAGED_ACCESS, index)
    return DeviceMemory(
        f"cuda:{index}", free=int(free), total=int(total), concurrent=bool(concurrent)
    )


_adapters: dict[int, Cupy] = {}


def cupy_adapter(index: int | None = None) -> Cupy:
    """The adapter of one device in this process.

    Args:
        index: of the device; None for the current one.

    Raises:
        AdapterError: when CuPy is missing or finds no such device.
    """
    index = cupy_device(imported_cupy(), index)
    with _installing:
        if index not in _adapters:
            _adapters[index] = Cupy(index)
        return _adapters[index]


def cupy_allocator() -> _core.CupyAllocator:
    """An allocator for `cupy.cuda.set_allocator`, over the one that is current.

    `pgmo.optimize(framework="cupy")` needs no such call: it installs the same allocator and takes
    it away again. Where a program has installed it, sessions find it there and leave it there.
    Until a session is open, everything is passed on.

    Returns:
        A function of a size in bytes that returns a `cupy.cuda.MemoryPointer`.

    Raises:
        AdapterError: when CuPy is missing.

    Example:
        >>> cupy.cuda.set_allocator(pgmo.cupy_allocator())  # doctest: +SKIP
    """
    allocator = current_or_over_it(imported_cupy().cuda)
    allocator.stays = True
    return allocator
