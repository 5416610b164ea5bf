"""Builder of a trace from an event log, one event at a time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pgmo.errors import FileError, ProfileError
from pgmo.profiler.importers.earlier_blocks import Rows, complete
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.trace import Event, Trace

_Row = tuple[int, int, int, int, int]


class EventLog:
    """Events of one device, in the order in which they are read."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []

    def add(self, kind: Event, address: int, size: int, *, stream: int = 0, time: int = 0) -> None:
        """Add one event."""
        self._rows.append((kind, address, size, stream, time))

    def free(self, address: int, size: int, *, stream: int = 0, time: int = 0) -> None:
        """Add a free that takes effect at once."""
        self.add(Event.FREE_REQUESTED, address, size, stream=stream, time=time)
        self.add(Event.FREE_COMPLETED, address, size, stream=stream, time=time)

    def imported(
        self,
        path: Path,
        framework: str,
        device: int,
        notes: dict[str, str],
    ) -> Imported:
        """Return the trace of these events, with the reconstructed initial state.

        Raises:
            FileError: when an address, size, stream or time is out of range.
        """
        try:
            rows = Rows.make([(*row[:4], -1) for row in self._rows])
            time = np.array([row[4] for row in self._rows], np.int64)
            time = np.maximum(time - (time[0] if len(time) else 0), 0)
        except OverflowError as error:
            raise FileError(f"{path}: a number has more than 64 bits; check the file") from error
        nothing = Rows.make([])
        try:
            whole, before, repairs = complete(replace(rows, time=time), nothing, nothing, nothing)
            trace = Trace(
                kind=whole.kind,
                address=whole.address,
                size=whole.size,
                stream=whole.stream,
                tag=whole.origin,
                time=whole.time,
                before=before,
                device=device,
            )
        except ProfileError as error:
            raise FileError(f"{path}: {error}; check the file") from error
        own = {"events": str(len(self._rows)), **notes, **repairs}
        return Imported(trace, framework, f"cuda:{device}", own)


def choose_device(path: Path, found: Sequence[int], device: int | None) -> list[int]:
    """Return the devices to read, in ascending order; raise FileError if `device` is not found."""
    if device is None:
        return sorted(found)
    if device not in found:
        there = ", ".join(map(str, sorted(found)))
        raise FileError(f"{path}: has no events of device {device}; choose from {there}")
    return [device]
