"""The callable that stands in the place of CuPy's allocator.

    cupy.ndarray ──▶ CupyAllocator ──allocate──▶ engine ──▶ a slot:  UnownedMemory ─▶ Block
                          └──miss──▶ the allocator that was there ─▶ UnownedMemory ─▶ Block

CuPy frees an array's memory by dropping its last reference, so the destruction of its owner, a
native object, releases the block. A block of the framework's own has such an owner only if the
engine asks for it: while it records, and while it serves. All of this is native
(csrc/bindings/cupy_allocator.cpp). Python code runs where the allocator beneath fails.
"""

import atexit
from collections.abc import Callable
from typing import Any

from pgmo import _core
from pgmo.units import format_bytes

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
    """
    memory = cuda.memory
    if memory._get_thread_local_allocator() is None:
        cuda.set_allocator(allocator)
    else:
        memory._set_thread_local_allocator(allocator)


def current_or_over_it(cuda: Any) -> _core.CupyAllocator:
    """Return CuPy's current allocator if it is one of ours, and else one of ours over it.

    Args:
        cuda: the module `cupy.cuda`.
    """
    current = cuda.get_allocator()
    if isinstance(current, _core.CupyAllocator):
        return current
    return _core.CupyAllocator(cuda, current, makes_room)


def makes_room(route: _core.CupyRoute, error: BaseException) -> bool:
    """Return whether an arena could be given back for a request that failed.

    Otherwise an error that says that memory has run out gets a note: what is held here.

    Args:
        route: of the request.
        error: what the allocator beneath has raised.
    """
    if not is_out_of_memory(error):
        return False
    if route.engine.yield_idle():
        return True
    now = route.engine.statistics()
    error.add_note(
        f"pgmo: arenas hold {format_bytes(now['arena_bytes'])}, of which "
        f"{format_bytes(now['live_slot_bytes'])} are in use; blocks of this session outside "
        f"the plan {format_bytes(now['live_fallback_bytes'])}."
        + (f"\n{route.advice}" if route.advice else "")
    )
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory has run out, whichever allocator raised it.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError())
        (True, False)
    """
    return (
        isinstance(error, MemoryError)
        or getattr(error, "status", 0) == _NO_MEMORY
        or type(error).__name__ == "OutOfMemoryError"  # of torch, which need not be there
    )
