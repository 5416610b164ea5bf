"""Allocator that replaces CuPy's allocator.

    cupy.ndarray ──▶ CupyAllocator ──allocate──▶ engine ──▶ a slot:  UnownedMemory ─▶ Block
                          └──miss──▶ the allocator beneath ──▶ UnownedMemory ─▶ Block

When CuPy drops the last reference to a native `Block`, its destructor frees the memory. A block of
the allocator beneath has a `Block` only if it was allocated while the engine recorded or served.
Requests and frees run in native code (csrc/bindings/cupy_allocator.cpp). This module installs the
allocator, and handles failures of the allocator beneath.
"""

import atexit
from collections.abc import Callable
from typing import Any

from pgmo import _core
from pgmo.units import format_bytes

LEGACY = 1
"""CUDA's handle `cudaStreamLegacy` of the default stream, whose other handle is 0."""

_NO_MEMORY = 2
"""CUDA's error `cudaErrorMemoryAllocation`, for which CuPy has no constant."""

PER_THREAD = 2
"""CUDA's handle of the per-thread default stream, the same in all threads."""

# At exit, CuPy may be unloaded before the last blocks are freed. So frees at exit do nothing. The
# end of the process frees the memory.
atexit.register(_core.end_blocks)


def exchange(cuda: Any, allocator: Callable[[int], Any]) -> None:
    """Replace CuPy's current allocator: this thread's if it has one, else the global one."""
    memory = cuda.memory
    if memory._get_thread_local_allocator() is None:
        cuda.set_allocator(allocator)
    else:
        memory._set_thread_local_allocator(allocator)


def current_or_over_it(cuda: Any) -> _core.CupyAllocator:
    """Return CuPy's current allocator if it is pgmo's, else a new allocator on top of it."""
    current = cuda.get_allocator()
    if isinstance(current, _core.CupyAllocator):
        return current
    return _core.CupyAllocator(cuda, current, free_idle_arena)


def free_idle_arena(route: _core.CupyRoute, error: BaseException) -> bool:
    """Free idle arenas after an out-of-memory error; return whether an arena was freed.

    If no arena is idle, add a note to the error that states the memory of pgmo. For other errors,
    return False and add no note.
    """
    if not is_out_of_memory(error):
        return False
    if route.engine.yield_idle():
        return True
    now = route.engine.statistics()
    error.add_note(
        f"pgmo: arenas hold {format_bytes(now['arena_bytes'])}, of which "
        f"{format_bytes(now['live_slot_bytes'])} are in use; blocks of this session without "
        f"a slot hold {format_bytes(now['live_fallback_bytes'])}."
        + (f"\n{route.advice}" if route.advice else "")
    )
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception of a known allocator means that memory has run out."""
    return (
        isinstance(error, MemoryError)
        or getattr(error, "status", 0) == _NO_MEMORY
        or type(error).__name__ == "OutOfMemoryError"  # torch's; torch may be missing
    )
