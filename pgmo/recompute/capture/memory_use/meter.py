"""Measurement of the memory that code allocates, with marks between its parts.

PyTorch's profiler records the memory events of its CPU and its native CUDA allocator. CUDA's peak
statistics are not used: a measurement would reset the user's peak.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from pgmo.locks import new_lock
from pgmo.recompute.capture.compat import is_profiling, memory_changes, writes_memory_events

_PREFIX = "pgmo: "
_LEVEL = "KINETO_LOG_LEVEL"


Change = tuple[str, int]
"""("", bytes) for a change of live bytes, (label, 0) for a mark."""


def meter(device: torch.device) -> "Meter | None":
    """Return a meter for a device.

    The result is None if PyTorch does not record the device's allocations, or if another
    measurement runs: a profile, or `measuring_program`.

    Example:
        >>> with meter(torch.device("cpu")) as measured:
        ...     negated = torch.ones(1024).neg()
        >>> measured.peak, measured.net
        (8192, 4096)
    """
    others = is_profiling() or _program_is_measured.is_set()
    return Meter(device) if writes_memory_events(device) and not others else None


_measuring = new_lock()
"""Lock of PyTorch's profiler: the process crashes if two threads use the profiler."""

_program_is_measured = threading.Event()
"""Set while the user's code is measured. Other threads then skip their measurements instead of
waiting for `_measuring`, because the user's code may wait for these threads."""


@contextmanager
def measuring_program() -> Iterator[None]:
    """Run a block that measures the user's code; other measurements are skipped meanwhile."""
    _program_is_measured.set()
    try:
        yield
    finally:
        _program_is_measured.clear()


class Meter:
    """Measurement of the code in its `with` block. Only one block runs at a time; others wait.

    Attributes:
        changes: changes of live bytes and marks, in order.
        peak: most live bytes in the block, minus live bytes at its start.
        net: live bytes at the end of the block, minus live bytes at its start.
    """

    def __init__(self, device: torch.device) -> None:
        self.changes: list[Change] = []
        self.peak = self.net = 0
        self._device = device

    def __enter__(self) -> "Meter":
        _measuring.acquire()
        try:
            self._profile = profile(use_cpu=True, profile_memory=True)
            with _quiet():
                self._profile.__enter__()  # type: ignore[no-untyped-call]
        except BaseException:
            _measuring.release()
            raise
        return self

    def mark(self, label: str) -> None:
        """Add a mark to `changes`."""
        with record_function(_PREFIX + label):
            pass

    def __exit__(self, *error: Any) -> None:
        try:
            self._profile.__exit__(*error)  # type: ignore[no-untyped-call]
            changes = memory_changes(self._profile, self._device)
        finally:
            _measuring.release()
        self.changes = [
            (name[len(_PREFIX) :] if name.startswith(_PREFIX) else "", change)
            for name, change in changes
            if change or name.startswith(_PREFIX)
        ]
        self.peak, self.net = peak_and_net(self.changes)


def peak_and_net(changes: Iterable[Change]) -> tuple[int, int]:
    """Return the peak of the running sum of changes, at least 0, and the sum of all changes."""
    level = highest = 0
    for _, change in changes:
        level += change
        highest = max(highest, level)
    return highest, level


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Kineto, which writes to standard error when a profile starts."""
    before = os.environ.get(_LEVEL)
    os.environ.setdefault(_LEVEL, "6")
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LEVEL]
