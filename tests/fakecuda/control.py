"""What only tests ask the stub CUDA runtime, beside what programs ask it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from pgmo.rehearsal.control import (
    CALLS,
    card_peak,
    driver_calls,
    has_context,
    hold,
    peak,
    release,
)

__all__ = [
    "card_peak",
    "driver_calls",
    "has_context",
    "hold",
    "peak",
    "release",
]


@cache
def _stub() -> ctypes.CDLL:
    """The stub, loaded when it is first asked for: whoever only imports this does without it."""
    stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    stub.fakecuda_ignore_waits.argtypes = [ctypes.c_int]
    stub.fakecuda_used.argtypes = [ctypes.c_int]
    stub.fakecuda_used.restype = ctypes.c_size_t
    stub.fakecuda_card_used.argtypes = [ctypes.c_int]
    stub.fakecuda_card_used.restype = ctypes.c_size_t
    stub.fakecuda_refuse.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t]
    stub.fakecuda_own_files.restype = ctypes.c_size_t
    stub.fakecuda_violations.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_violations.restype = ctypes.c_size_t
    stub.fakecuda_managed.restype = ctypes.c_size_t
    stub.fakecuda_hint.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    return stub


@contextmanager
def held(stream: torch.cuda.Stream) -> Iterator[None]:
    """Holds the stream inside the block."""
    hold(stream)
    try:
        yield
    finally:
        release(stream)


def ignore_waits(on: bool) -> None:
    """No stream waits for an event that it is told to wait for, as long as this is on.

    A test that switches it off around the program's own waits has an allocator that orders nothing,
    and sees whether it would notice.
    """
    _stub().fakecuda_ignore_waits(on)


def used(device: int = 0) -> int:
    """Bytes of the card that are taken."""
    return int(_stub().fakecuda_used(device))


def card_used(device: int = 0) -> int:
    """Bytes of the card that are taken by all processes that share it (`FAKECUDA_SHARED`)."""
    return int(_stub().fakecuda_card_used(device))


def refuse(kind: str, *, behind: int = 0, count: int = 1) -> None:
    """Make the driver refuse calls that are right, with `CUDA_ERROR_UNKNOWN`.

    Args:
        kind: "create", "map", "set_access", "reserve" or "export".
        behind: So many calls of that kind succeed before.
        count: So many calls are refused; 0 ends what was asked for before.
    """
    _stub().fakecuda_refuse(CALLS.index(kind), behind, count)


def own_files() -> int:
    """Return how many file descriptors the stub holds for memory that was exported or imported.

    A driver has none of its own: subtract them from those that the process has open.
    """
    return int(_stub().fakecuda_own_files())


def violations(*, kernels: bool = True, reset: bool = False) -> int:
    """How often mapped memory was taken away from pending work.

    It is unmapped while work on a held stream may still use it, or handed to another stream that
    does not wait for that work. The bytes that copies and sets use are known, those of kernels are
    not: a pending kernel counts as a user of all that was mapped when it was submitted, which is a
    false alarm where an allocator knows better. The rule is in `csrc/rehearsal/state.hpp`.

    Args:
        kernels: Counts what pending kernels may use as well as what copies and sets do use.
        reset: Counts from zero, after this answer.

    Returns:
        Violations since the last reset or the start of the process.
    """
    certain = int(_stub().fakecuda_violations(0, reset))
    possible = int(_stub().fakecuda_violations(1, reset))
    return certain + possible if kernels else certain


def managed() -> int:
    """Bytes of unified memory that programs hold, on all cards."""
    return int(_stub().fakecuda_managed())


def hints() -> list[tuple[int, int, int, int]]:
    """What the driver was told of unified memory so far.

    Returns:
        Advice (-1: prefetch), address, bytes and device (-1: the host) of each.
    """
    found: list[tuple[int, int, int, int]] = []
    out = (ctypes.c_int64 * 4)()
    while _stub().fakecuda_hint(len(found), out):
        found.append((out[0], out[1], out[2], out[3]))
    return found
