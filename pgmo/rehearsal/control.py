"""Counters of the stub CUDA runtime, and control of its streams."""

import ctypes
import os
from functools import cache

import torch


@cache
def _stub() -> ctypes.CDLL:
    """The stub, loaded when it is first asked for: whoever only imports this does without it."""
    stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    stub.fakecuda_hold.argtypes = [ctypes.c_void_p]
    stub.fakecuda_release.argtypes = [ctypes.c_void_p]
    stub.fakecuda_peak.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_peak.restype = ctypes.c_size_t
    stub.fakecuda_card_peak.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_card_peak.restype = ctypes.c_size_t
    stub.fakecuda_driver_calls.argtypes = [ctypes.c_int, ctypes.c_int]
    stub.fakecuda_driver_calls.restype = ctypes.c_size_t
    stub.fakecuda_dnn_workspace.restype = ctypes.c_size_t
    stub.fakecuda_dnn_used.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    stub.fakecuda_has_context.argtypes = [ctypes.c_int]
    return stub


CALLS = ("create", "map", "unmap", "set_access", "reserve", "release", "export", "import")
"""Calls of the driver that are counted, in the stub's order."""


def hold(stream: torch.cuda.Stream) -> None:
    """Work submitted to the stream from now on is pending, until it is released or waited for."""
    _stub().fakecuda_hold(stream.cuda_stream)


def release(stream: torch.cuda.Stream) -> None:
    """What was pending on the stream is done."""
    _stub().fakecuda_release(stream.cuda_stream)


def peak(device: int = 0, *, reset: bool = False) -> int:
    """The most bytes of the card that were taken at once.

    Args:
        device: Number of the card.
        reset: Counts from what is taken now, after this answer.

    Returns:
        Bytes, since the last reset or the start of the process.
    """
    return int(_stub().fakecuda_peak(device, reset))


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
    return {kind: int(_stub().fakecuda_driver_calls(at, reset)) for at, kind in enumerate(CALLS)}


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
