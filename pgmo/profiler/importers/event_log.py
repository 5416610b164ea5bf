"""What logs of events have in common: rows are added one by one, a device at a time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pgmo.errors import FileError, ProfileError
from pgmo.profiler.importers.earlier_blocks import Rows, complete, with_marks
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace

_Row = tuple[int, int, int, int, int, int]


class EventLog:
    """The events of one device, as they are read.

    Example:
        >>> log = EventLog()
        >>> log.add(Event.ALLOC, 64, 8)
        >>> log.free(64, 8)
        >>> log.imported(Path("a.log"), "cupy", "cuda:0", 0).trace.kind.tolist()
        [0, 1, 2]
    """

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._there: list[_Row] = []
        self._tags: dict[Tag, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        kind: Event,
        address: int,
        size: int,
        *,
        stream: int = 0,
        time: int = 0,
        tag: Tag | None = None,
    ) -> None:
        """Adds one event."""
        self._rows.append((kind, address, size, stream, self._number(tag), time))

    def was_there(self, address: int, size: int, *, tag: Tag | None = None) -> None:
        """Adds a block that lives from before the first event to after the last one."""
        self._there.append((Event.ALLOC, address, size, 0, self._number(tag), 0))

    def free(self, address: int, size: int, *, stream: int = 0, time: int = 0) -> None:
        """Adds a free that takes effect at once."""
        self.add(Event.FREE_REQUESTED, address, size, stream=stream, time=time)
        self.add(Event.FREE_COMPLETED, address, size, stream=stream, time=time)

    def imported(
        self,
        path: Path,
        framework: str,
        device: str,
        number: int,
        marks: Sequence[int] = (),
        notes: dict[str, str] | None = None,
    ) -> Imported:
        """The trace of these events, with what must have been there before.

        Args:
            path: the file, for messages.
            framework: goes into the result, as `device` and `notes` do.
            device: its name.
            number: its number.
            marks: beginnings of iterations, each the event that it comes before.
            notes: what else is known.

        Raises:
            FileError: when the numbers are absurd.
        """
        try:
            rows = Rows.make([row[:5] for row in self._rows])
            time = np.array([row[5] for row in self._rows], np.int64)
            time = np.maximum(time - (time[0] if len(time) else 0), 0)
        except OverflowError as error:
            raise FileError(f"{path}: holds a number beyond 2**64; check the file") from error
        rows = Rows(rows.kind, rows.address, rows.size, rows.stream, rows.origin, time)
        nothing = Rows.make([])
        try:
            marked = with_marks(rows, marks)
            there = Rows.make([row[:5] for row in self._there])
            whole, before, repairs = complete(marked, nothing, nothing, there)
            trace = Trace(
                kind=whole.kind,
                address=whole.address,
                size=whole.size,
                stream=whole.stream,
                tag=whole.origin,
                time=whole.time,
                before=before,
                device=number,
                tags=tuple(self._tags),
            )
        except ProfileError as error:
            raise FileError(f"{path}: {error}; check the file") from error
        own = {"events": str(len(self)), **(notes or {}), **repairs}
        return Imported(trace, framework, device, own)

    def _number(self, tag: Tag | None) -> int:
        return -1 if tag is None else self._tags.setdefault(tag, len(self._tags))


def choose_device(path: Path, found: Sequence[int], device: int | None) -> list[int]:
    """The devices to read: all, or the one that was asked for.

    Raises:
        FileError: when it is not there.

    Example:
        >>> choose_device(Path("a.log"), [0, 1], 1)
        [1]
    """
    if device is None:
        return sorted(found)
    if device not in found:
        there = ", ".join(map(str, sorted(found)))
        raise FileError(f"{path}: has nothing of device {device}; give one of these: {there}")
    return [device]
