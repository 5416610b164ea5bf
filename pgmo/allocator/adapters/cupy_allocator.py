"""The callable that stands in the place of CuPy's allocator.

    cupy.ndarray ──▶ CupyAllocator ──allocate──▶ engine ──▶ a slot:  UnownedMemory ─▶ Block
                          └──miss──▶ the allocator that was there ─▶ UnownedMemory ─▶ Block

CuPy frees an array's memory by letting go of it, so the end of a block is the end of its owner, a
`pgmo._core.Block`. A block of the framework's own has such an owner only if the engine asks for it:
while it records, and while it serves.
"""

import atexit
from collections.abc import Callable, Mapping
from typing import Any

from pgmo import _core
from pgmo.locks import new_lock
from pgmo.units import format_bytes

MOST_STREAMS = 64
"""Streams of a device that are told apart; what others request goes to the allocator beneath."""

LEGACY = 1
"""CUDA's other handle of the default stream, besides 0."""

_NO_MEMORY = 2
"""CUDA's `cudaErrorMemoryAllocation`, which CuPy has no name for."""

PER_THREAD = 2
"""CUDA's handle of the per-thread default stream: one handle for a stream in each thread."""

# CuPy may be gone when the interpreter has ended, and the memory goes anyway.
atexit.register(_core.end_blocks)


def exchange(cuda: Any, allocator: Callable[[int], Any]) -> None:
    """Replaces CuPy's current allocator, where it is: of this thread, or of all of them.

    Args:
        cuda: the module `cupy.cuda`.
        allocator: the new one.

    Example:
        >>> exchange(cupy.cuda, pool.malloc)  # doctest: +SKIP
    """
    memory = cuda.memory
    if memory._get_thread_local_allocator() is None:
        cuda.set_allocator(allocator)
    else:
        memory._set_thread_local_allocator(allocator)


class StreamNumbers:
    """Small numbers for the streams of a device, in order of first use; 0 is the default stream.

    A handle differs from process to process, and a plan is used in other ones.

    Args:
        is_capturing: whether the work of a stream is being captured.

    Example:
        >>> streams = StreamNumbers(lambda handle: False)
        >>> streams.number(4096), streams.number(4096), streams.handle(1)
        (1, 1, 4096)
    """

    def __init__(self, is_capturing: Callable[[int], bool]) -> None:
        self._is_capturing = is_capturing
        self._numbers = {0: 0}
        self._handles = [0]
        self._adding = new_lock()

    def number(self, handle: int) -> int | None:
        """The number of the stream that is current; None where nothing may be served.

        That is while its work is captured, for a graph keeps the addresses; on the per-thread
        default stream; and when there are too many streams.
        """
        if handle <= LEGACY:
            return 0
        if handle == PER_THREAD or self._is_capturing(handle):
            return None
        number = self._numbers.get(handle)
        return self._add(handle) if number is None else number

    def handle(self, number: int) -> int | None:
        """The handle of a stream that has been used; None for others."""
        return self._handles[number] if number < len(self._handles) else None

    def _add(self, handle: int) -> int | None:
        with self._adding:
            if handle not in self._numbers:
                if len(self._handles) == MOST_STREAMS:
                    return None
                self._handles.append(handle)
                self._numbers[handle] = len(self._handles) - 1
            return self._numbers[handle]


class Route:
    """Where the requests of one device go while a session is open.

    Args:
        engine: decides.
        streams: of the device.
        advice: what out-of-memory errors say besides.

    Example:
        >>> route = Route(_core.Engine(), StreamNumbers(lambda handle: False))
        >>> route.engine.busy
        False
    """

    def __init__(self, engine: _core.Engine, streams: StreamNumbers) -> None:
        self.engine = engine
        self.streams = streams
        self.advice = ""

    def note(self) -> str:
        """What is held here, for an error that says that memory has run out."""
        now = self.engine.statistics()
        text = (
            f"pgmo: arenas hold {format_bytes(now['arena_bytes'])}, of which "
            f"{format_bytes(now['live_slot_bytes'])} are in use; blocks of this session outside "
            f"the plan {format_bytes(now['live_fallback_bytes'])}."
        )
        return f"{text}\n{self.advice}" if self.advice else text


class CupyAllocator:
    """An allocator for `cupy.cuda.set_allocator`: passes on what no session asks for.

    Args:
        cuda: the module `cupy.cuda`.
        upstream: the allocator that it wraps.

    Attributes:
        stays: whether the program has installed it, so that sessions leave it there.

    Example:
        >>> cupy.cuda.set_allocator(pgmo.cupy_allocator())  # doctest: +SKIP
    """

    def __init__(self, cuda: Any, upstream: Callable[[int], Any]) -> None:
        self.upstream = upstream
        self.stays = False
        self._routes: Mapping[int, Route] = {}
        self._device: Callable[[], int] = cuda.runtime.getDevice
        self._stream: Callable[[int], Any] = cuda.get_current_stream
        self._pointer, self._memory = cuda.MemoryPointer, cuda.UnownedMemory

    @property
    def serves(self) -> bool:
        """Whether a session is open on any device."""
        return bool(self._routes)

    def attach(self, device: int, route: Route) -> None:
        """Sends a device's requests to an engine."""
        self._routes = {**self._routes, device: route}  # others read it meanwhile

    def detach(self, device: int) -> None:
        """Passes a device's requests on again."""
        self._routes = {other: at for other, at in self._routes.items() if other != device}

    def __call__(self, size: int) -> Any:
        """A `cupy.cuda.MemoryPointer` to `size` bytes, which are freed when the last one goes.

        Raises:
            cupy.cuda.memory.OutOfMemoryError: and whatever else the allocator beneath raises.
        """
        routes = self._routes
        if not routes or size <= 0:
            return self.upstream(size)
        device = self._device()
        route = routes.get(device)
        if route is None:
            return self.upstream(size)
        handle = self._stream(device).ptr
        stream = route.streams.number(handle) if handle else 0
        if stream is None:
            return self.upstream(size)
        engine = route.engine
        block = engine.allocate_block(size, stream)
        if block is not None:
            return self._pointer(self._memory(block.address, size, block, device), 0)
        memory = self._ask(route, size)
        block = engine.adopt_block(memory.ptr, size, stream, memory)
        if block is None:
            return memory
        return self._pointer(self._memory(block.address, memory.mem.size, block, device), 0)

    def _ask(self, route: Route, size: int) -> Any:
        """Asks the allocator beneath, a second time where an arena could be spared for it."""
        try:
            return self.upstream(size)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if not route.engine.yield_idle():
                error.add_note(route.note())
                raise
        try:
            return self.upstream(size)
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                error.add_note(route.note())
            raise


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that is what an allocator says, be it a pool, CUDA without one, or PyTorch.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError())
        (True, False)
    """
    return (
        isinstance(error, MemoryError)
        or getattr(error, "status", 0) == _NO_MEMORY
        or type(error).__name__ == "OutOfMemoryError"  # of torch, which need not be there
    )
