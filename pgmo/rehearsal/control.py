"""Counters of the stub CUDA runtime, and control of its streams."""

import ctypes
import os
from functools import cache

import torch


@cache
def _stub() -> ctypes.CDLL:
    """Return the stub library, which is loaded on first use, not by an import of this module."""
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
"""Kinds of driver calls, in the order of the stub's counters."""


def hold(stream: torch.cuda.Stream) -> None:
    """Keep all further work on the stream pending, until `release` or a wait for the stream."""
    _stub().fakecuda_hold(stream.cuda_stream)


def release(stream: torch.cuda.Stream) -> None:
    """Complete the pending work of the stream."""
    _stub().fakecuda_release(stream.cuda_stream)


def peak(device: int = 0, *, reset: bool = False) -> int:
    """Return the peak bytes of the card that this process has taken since the last reset."""
    return int(_stub().fakecuda_peak(device, reset))


def card_peak(device: int = 0, *, reset: bool = False) -> int:
    """Return the peak bytes that all processes on the card have taken since the last reset.

    Processes with the same file `FAKECUDA_SHARED` share a card. Without a file, a process is alone.
    """
    return int(_stub().fakecuda_card_peak(device, reset))


def driver_calls(*, reset: bool = False) -> dict[str, int]:
    """Return the number of virtual memory calls to the driver by kind, including failed calls."""
    return {kind: int(_stub().fakecuda_driver_calls(at, reset)) for at, kind in enumerate(CALLS)}


def has_context(device: int) -> bool:
    """Return whether this process has a context on the card, which takes memory of the card."""
    return bool(_stub().fakecuda_has_context(device))


def dnn_workspace() -> int:
    """Return the bytes of the largest workspace of cuDNN so far, by the stub's model."""
    return int(_stub().fakecuda_dnn_workspace())


def convolution_workspaces() -> list[tuple[int, int, int]]:
    """Return address, bytes and convolution of each workspace of convolutions, in the order of use.

    Convolutions of one kind share a number if their tensors have the same types, shapes and
    strides. Only the first 2**20 uses are kept.
    """
    found: list[tuple[int, int, int]] = []
    out = (ctypes.c_int64 * 3)()
    while _stub().fakecuda_dnn_used(len(found), out):
        found.append((out[0], out[1], out[2]))
    return found
