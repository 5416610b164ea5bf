"""What a test can tell the stub CUDA runtime."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@cache
def _stub() -> ctypes.CDLL:
    """The stub, loaded when it is first asked for: whoever only imports this does without it."""
    stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    stub.fakecuda_hold.argtypes = [ctypes.c_void_p]
    stub.fakecuda_release.argtypes = [ctypes.c_void_p]
    stub.fakecuda_ignore_waits.argtypes = [ctypes.c_int]
    stub.fakecuda_used.argtypes = [ctypes.c_int]
    stub.fakecuda_used.restype = ctypes.c_size_t
    stub.fakecuda_peak.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_peak.restype = ctypes.c_size_t
    stub.fakecuda_card_used.argtypes = [ctypes.c_int]
    stub.fakecuda_card_used.restype = ctypes.c_size_t
    stub.fakecuda_card_peak.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_card_peak.restype = ctypes.c_size_t
    stub.fakecuda_driver_calls.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_driver_calls.restype = ctypes.c_size_t
    stub.fakecuda_refuse.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t]
    stub.fakecuda_own_files.restype = ctypes.c_size_t
    stub.fakecuda_violations.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_violations.restype = ctypes.c_size_t
    stub.fakecuda_managed.restype = ctypes.c_size_t
    stub.fakecuda_dnn_workspace.restype = ctypes.c_size_t
    stub.fakecuda_dnn_used.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    stub.fakecuda_hint.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    stub.fakecuda_has_context.argtypes = [ctypes.c_int]
    return stub


# In the stub's order.
_CALLS = ("create", "map", "unmap", "set_access", "reserve", "release", "export", "import")


def hold(stream: torch.cuda.Stream) -> None:
    """Work submitted to the stream from now on is pending, until it is released or waited for."""
    _stub().fakecuda_hold(stream.cuda_stream)


def release(stream: torch.cuda.Stream) -> None:
    """What was pending on the stream is done."""
    _stub().fakecuda_release(stream.cuda_stream)


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


def peak(device: int = 0, *, reset: bool = False) -> int:
    """The most bytes of the card that were taken at once.

    Args:
        device: Number of the card.
        reset: Counts from what is taken now, after this answer.

    Returns:
        Bytes, since the last reset or the start of the process.
    """
    return int(_stub().fakecuda_peak(device, reset))


def card_used(device: int = 0) -> int:
    """Bytes of the card that are taken by all processes that share it (`FAKECUDA_SHARED`)."""
    return int(_stub().fakecuda_card_used(device))


def card_peak(device: int = 0, *, reset: bool = False) -> int:
    """The most bytes of the card that all processes that share it had at once.

    Args:
        device: Number of the card.
        reset: Counts from what is taken now, after this answer.

    Returns:
        Bytes, since the last reset or since the file of `FAKECUDA_SHARED` was made; of this process
        alone where it shares no card.
    """
    return int(_stub().fakecuda_card_peak(device, reset))


def driver_calls(*, reset: bool = False) -> dict[str, int]:
    """How often the driver's virtual memory was called, on all cards.

    Args:
        reset: Counts from zero, after this answer.

    Returns:
        Calls by kind ("create", "map", "unmap", "set_access", "reserve", "release", "export",
        "import") since the last reset or the start of the process. Calls that were refused are
        counted, too.
    """
    return {kind: int(_stub().fakecuda_driver_calls(at, reset)) for at, kind in enumerate(_CALLS)}


def refuse(kind: str, *, behind: int = 0, count: int = 1) -> None:
    """Make the driver refuse calls that are right, with `CUDA_ERROR_UNKNOWN`.

    Args:
        kind: "create", "map", "set_access", "reserve" or "export".
        behind: So many calls of that kind succeed before.
        count: So many calls are refused; 0 ends what was asked for before.
    """
    _stub().fakecuda_refuse(_CALLS.index(kind), behind, count)


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


def has_context(device: int) -> bool:
    """Whether anything has been done on the card, so that its context takes memory there."""
    return bool(_stub().fakecuda_has_context(device))


def dnn_workspace() -> int:
    """Bytes of the largest workspace of cuDNN that was taken, by the stub's model."""
    return int(_stub().fakecuda_dnn_workspace())


def convolution_workspaces() -> list[tuple[int, int, int]]:
    """Workspaces of convolutions in the order in which they were used.

    Returns:
        Address, bytes and the number of the convolution, the same for all of the same tensors.
    """
    found: list[tuple[int, int, int]] = []
    out = (ctypes.c_int64 * 3)()
    while _stub().fakecuda_dnn_used(len(found), out):
        found.append((out[0], out[1], out[2]))
    return found
