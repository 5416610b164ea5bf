"""Pool of host memory, which may be pinned.

A buffer returns to the pool when no tensor refers to its memory: no view, and no value saved by
autograd.
"""

import ctypes
import mmap
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pgmo.errors import BudgetError
from pgmo.units import format_bytes
from pgmo.user_warnings import warn_user

_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: a page is reserved when it is pinned or written.
_FLAGS = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | (_NO_RESERVE if sys.platform == "linux" else 0)


class PinnedBufferPool:
    """Pool of buffers of `size` bytes, which grows when all buffers are in use.

    `finish` is called before pinned memory is freed, and waits for copies.
    """

    def __init__(self, size: int, pinned: bool, finish: Callable[[], None]) -> None:
        self._size, self._pinned, self._finish = size, pinned, finish
        self._free: list[_Buffer] = []

    def lend(self) -> Tensor:
        """Return an unused buffer, shape (size,); raise BudgetError if none can be allocated."""
        buffer = self._free.pop() if self._free else _Buffer(self._size)
        if self._pinned and not buffer.is_pinned:
            buffer.pin(self._finish)
        lent = (ctypes.c_char * self._size).from_buffer(buffer.memory)
        weakref.finalize(lent, self._free.append, buffer).atexit = False
        return torch.frombuffer(lent, dtype=torch.uint8)


class _Buffer:
    """Buffer in shared memory, so that after a fork the device still uses the parent's pages."""

    def __init__(self, size: int) -> None:
        try:
            self.memory = mmap.mmap(-1, size, flags=_FLAGS)
        except OSError as error:
            raise BudgetError(
                f"offloading takes {format_bytes(size)} of host memory, which cannot be "
                f"allocated: {error}. Give a larger budget, a smaller batch, or no offload"
            ) from error
        self.is_pinned = False

    def pin(self, finish: Callable[[], None]) -> None:
        self.is_pinned = True  # Pinning is tried only once.
        size = len(self.memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        status = int(_cudart().cudaHostRegister(address, size, 0))
        if status:
            warn_user(
                f"{format_bytes(size)} of host memory could not be pinned (CUDA error {status}), "
                "so transfers to and from it are slower. `ulimit -l` shows the system's limit"
            )
            return
        # The argument keeps the memory alive until it is unpinned.
        weakref.finalize(self, _unpin, self.memory, address, finish).atexit = False


def _unpin(_memory: mmap.mmap, address: int, finish: Callable[[], None]) -> None:
    finish()
    _cudart().cudaHostUnregister(address)


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]
