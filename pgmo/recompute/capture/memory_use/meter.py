"""Measurement of the memory that code allocates, section by section.

PyTorch's profiler records the memory events of its CPU and its native CUDA allocator. CUDA's peak
statistics are not used: a measurement would reset the user's peak.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from pgmo.locks import new_lock
from pgmo.recompute.capture.compat import is_profiling, memory_changes, writes_memory_events

_PREFIX = "pgmo: "
_LEVEL = "KINETO_LOG_LEVEL"


@dataclass(frozen=True, slots=True)
class Section:
    """Live bytes of a section of code.

    Args:
        label: the section's name.
        start: live bytes at the start of the section, minus live bytes at the start of the meter.
        peak: most live bytes during the section, minus live bytes at its start.
        net: live bytes at the end of the section, minus live bytes at its start.
    """

    label: str
    start: int
    peak: int
    net: int


def meter(device: torch.device) -> "Meter | None":
    """Return a meter for a device, or None if `can_measure` is false.

    Example:
        >>> with meter(torch.device("cpu")) as measured:
        ...     with measured.section("negate"):
        ...         negated = torch.ones(1024).neg()
        >>> [(one.label, one.peak, one.net) for one in measured.sections]
        [('negate', 8192, 4096)]
    """
    return Meter(device) if can_measure(device) else None


def can_measure(device: torch.device) -> bool:
    """Return whether PyTorch records a device's allocations, and no other measurement runs.

    Other measurements are a profile, and `measuring_program`.
    """
    return not (is_profiling() or _program_is_measured.is_set()) and writes_memory_events(device)


_measuring = new_lock()
"""Lock of the profiler: the process crashes if two threads use it."""

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
    """Measurement of the code in its `with` block. Only one block runs at a time.

    Attributes:
        sections: the sections, set at the end of the block.
        whole: the block itself as a section.
        changes: ("", bytes) for each change of live bytes, (label, 0) for each start of a section.
    """

    def __init__(self, device: torch.device) -> None:
        self.sections: list[Section] = []
        self.whole = Section("", 0, 0, 0)
        self.changes: list[tuple[str, int]] = []
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

    def section(self, label: str) -> AbstractContextManager[None]:
        """Return a context whose code is a section; sections must not overlap."""
        return record_function(_PREFIX + label)

    def __exit__(self, *error: Any) -> None:
        try:
            self._profile.__exit__(*error)  # type: ignore[no-untyped-call]
            changes = memory_changes(self._profile, self._device)
        finally:
            _measuring.release()
        self.changes = [
            (name[len(_PREFIX) :] if name.startswith(_PREFIX) else "", change)
            for name, _, _, change in changes
            if change or name.startswith(_PREFIX)
        ]
        level = highest = start = peak = 0
        label, until = "", -1
        for name, time, duration, change in changes:
            if label and (time > until or name.startswith(_PREFIX)):
                self._close(label, start, peak, level)
                label = ""
            if name.startswith(_PREFIX):
                label, until = name, time + duration
                start = peak = level
            level += change
            highest, peak = max(highest, level), max(peak, level)
        if label:
            self._close(label, start, peak, level)
        self.whole = Section("", 0, highest, level)

    def _close(self, label: str, start: int, peak: int, level: int) -> None:
        self.sections.append(Section(label[len(_PREFIX) :], start, peak - start, level - start))


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
