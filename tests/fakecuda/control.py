"""Controls of the stub CUDA runtime that only tests use."""

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
    """Return the stub, loaded at the first use: importing this module does not need it."""
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
    """Hold the stream inside of the block."""
    hold(stream)
    try:
        yield
    finally:
        release(stream)


def ignore_waits(on: bool) -> None:
    """Ignore all waits of streams for events, as long as `on` is the last value.

    A test that switches this off only around the program's own waits runs with an allocator whose
    waits have no effect, and can check that it notices the missing waits.
    """
    _stub().fakecuda_ignore_waits(on)


def used(device: int = 0) -> int:
    """Return the bytes of the card that this process has taken."""
    return int(_stub().fakecuda_used(device))


def card_used(device: int = 0) -> int:
    """Return the bytes of the card that all processes sharing it have taken (`FAKECUDA_SHARED`)."""
    return int(_stub().fakecuda_card_used(device))


def refuse(kind: str, *, behind: int = 0, count: int = 1) -> None:
    """Make the driver refuse valid calls, with `CUDA_ERROR_UNKNOWN`.

    Args:
        kind: "create", "map", "set_access", "reserve" or "export".
        behind: number of calls of that kind that succeed before.
        count: number of calls that are refused; 0 ends an earlier refusal.
    """
    _stub().fakecuda_refuse(CALLS.index(kind), behind, count)


def own_files() -> int:
    """Return how many file descriptors the stub holds for memory that was exported or imported.

    A real driver has no such descriptors: subtract them from the open ones of the process.
    """
    return int(_stub().fakecuda_own_files())


def violations(*, kernels: bool = True, reset: bool = False) -> int:
    """Return how often mapped memory was taken away from pending work.

    A violation is memory that is unmapped while work on a held stream may still use it, or that is
    given to another stream which does not wait for this work. The stub knows the bytes of copies
    and sets, but not those of kernels. A pending kernel counts as a user of all memory that was
    mapped when it was submitted, which can be a false alarm. The rule is in
    `csrc/rehearsal/state.hpp`.

    Args:
        kernels: whether memory that pending kernels may use counts, too.
        reset: whether to reset the count after the call.

    Returns:
        Violations since the last reset or the start of the process.
    """
    certain = int(_stub().fakecuda_violations(0, reset))
    possible = int(_stub().fakecuda_violations(1, reset))
    return certain + possible if kernels else certain


def managed() -> int:
    """Return the bytes of unified memory that programs hold, on all cards."""
    return int(_stub().fakecuda_managed())


def hints() -> list[tuple[int, int, int, int]]:
    """Return all hints on unified memory that the driver got so far.

    Returns:
        Advice (-1: prefetch), address, bytes and device (-1: the host) of each hint.
    """
    found: list[tuple[int, int, int, int]] = []
    out = (ctypes.c_int64 * 4)()
    while _stub().fakecuda_hint(len(found), out):
        found.append((out[0], out[1], out[2], out[3]))
    return found
