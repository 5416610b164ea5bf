"""Bytes that the framework's allocator hands out while some code runs, section by section.

On the CPU a profile of memory events, on CUDA the allocator's own statistics, whose peak is reset
for it.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType

import torch
from torch.autograd.profiler import profile, record_function

from pgmo.recompute.compat import is_profiling, memory_changes

_PREFIX = "pgmo: "
_LEVEL = "KINETO_LOG_LEVEL"


@dataclass(frozen=True, slots=True)
class Section:
    """What happened between two moments.

    Args:
        label: what ran.
        start: bytes alive at its beginning, above those at the meter's beginning.
        peak: most bytes alive at once, above those at its own beginning.
        net: bytes alive at its end, above those at its own beginning.
        seconds: that it took.
    """

    label: str
    start: int
    peak: int
    net: int
    seconds: float


class Meter(ABC):
    """Measures the code in its `with` block; one at a time.

    Attributes:
        sections: what was measured; there once the block is over.
        whole: the block itself as a section.
    """

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.whole = Section("", 0, 0, 0, 0.0)

    @abstractmethod
    def __enter__(self) -> "Meter": ...

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    @abstractmethod
    def section(self, label: str) -> AbstractContextManager[None]:
        """Marks what its `with` block does; sections do not overlap."""


def meter(device: torch.device) -> Meter | None:
    """A meter for a device; None where nothing can be measured, or something else measures now.

    Example:
        >>> with meter(torch.device("cpu")) as measured:
        ...     with measured.section("double"):
        ...         doubled = torch.ones(1024) * 2
        >>> [(one.label, one.peak, one.net) for one in measured.sections]
        [('double', 8192, 4096)]
    """
    if device.type == "cuda":
        return _CudaMeter(device)
    if device.type != "cpu" or is_profiling():
        return None
    return _CpuMeter()


class _CpuMeter(Meter):
    def __enter__(self) -> Meter:
        self._profile = profile(use_cpu=True, profile_memory=True)
        with _quiet():
            self._profile.__enter__()  # type: ignore[no-untyped-call]
        return self

    def section(self, label: str) -> AbstractContextManager[None]:
        return record_function(_PREFIX + label)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._profile.__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        level = highest = start = peak = 0
        label, begun, until = "", 0, -1
        for name, time, duration, change in memory_changes(self._profile):
            if label and time > until:
                self._close(label, start, peak, level, until - begun)
                label = ""
            if name.startswith(_PREFIX):
                label, begun, until = name, time, time + duration
                start = peak = level
            level += change
            highest, peak = max(highest, level), max(peak, level)
        if label:
            self._close(label, start, peak, level, until - begun)
        self.whole = Section("", 0, highest, level, 0.0)

    def _close(self, label: str, start: int, peak: int, level: int, nanoseconds: int) -> None:
        self.sections.append(
            Section(label[len(_PREFIX) :], start, peak - start, level - start, nanoseconds / 1e9)
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's library says on standard error when it starts, if its first use is loud."""
    before = os.environ.get(_LEVEL)
    os.environ.setdefault(_LEVEL, "6")
    try:
        yield
    finally:
        if before is None:
            del os.environ[_LEVEL]


class _CudaMeter(Meter):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __enter__(self) -> Meter:
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        self._start = torch.cuda.memory_allocated(self._device)
        self._highest = 0
        return self

    def _note(self) -> int:
        """Bytes alive now; the peak so far is remembered before it is reset."""
        torch.cuda.synchronize(self._device)
        peak = torch.cuda.max_memory_allocated(self._device) - self._start
        self._highest = max(self._highest, peak)
        return torch.cuda.memory_allocated(self._device) - self._start

    @contextmanager
    def section(self, label: str) -> Iterator[None]:
        start = self._note()
        torch.cuda.reset_peak_memory_stats(self._device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        yield
        end.record()
        level = self._note()
        peak = torch.cuda.max_memory_allocated(self._device) - self._start
        seconds = begin.elapsed_time(end) / 1e3
        self.sections.append(Section(label, start, peak - start, level - start, seconds))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        level = self._note()
        self.whole = Section("", 0, self._highest, level, 0.0)
