"""Reader of the snapshots that `torch.cuda.memory._dump_snapshot` writes, from torch 2.1 on.

    segments              segments reserved at the end, each with its blocks
    device_traces         events of each device
    allocator_settings    from 2.2 on
    external_annotations  from 2.7 on: start and end of optimizer steps
    host_segments         from 2.14 on, optional: pinned memory of the host,
    host_traces           and its events, in one list

`torch.cuda.memory_snapshot()` returns only the segments. A pickle of this result can be read, too.
"""

from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import FileError, ProfileError
from pgmo.profiler.importers.checked_values import device_number, integer, shown, text
from pgmo.profiler.importers.contents import contents
from pgmo.profiler.importers.earlier_blocks import Rows, complete, with_marks
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.importers.marks import find_marks
from pgmo.profiler.importers.torch_memory.circumstances import (
    annotations_of,
    private_note,
    private_segments,
    settings_of,
)
from pgmo.profiler.importers.torch_memory.event_columns import EventColumns
from pgmo.profiler.importers.torch_memory.odd_values import OddValues
from pgmo.profiler.importers.torch_memory.restricted_pickle import PickleError, load
from pgmo.profiler.importers.torch_memory.stacks import Stacks, drop_unknown_origins
from pgmo.profiler.trace import Event, Trace
from pgmo.units import format_bytes

HOST = -1
"""Device number that stands for pinned memory of the host."""
_MOST_SURPLUS = 1024
"""Maximum surplus of entries over events. Above it, entries are not checked one by one."""

_MASK = 2**64 - 1
_HOW = (
    "call torch.cuda.memory._record_memory_history() before the work and "
    "torch.cuda.memory._dump_snapshot(FILE) after the work"
)


def read_torch_snapshot(path: Path, device: int | None = None) -> list[Imported]:
    """Read a snapshot, with one result per device.

    Args:
        path: the file.
        device: number of the only device to read, -1 for pinned memory of the host. None reads all
            devices that have events or segments, or the host if there are none.

    Raises:
        FileError: when the file is damaged, is not a snapshot of plain data, is empty, or lacks the
            device.
    """
    reader = _Reader(path)
    try:
        value = load(contents(path), reader.take)
    except PickleError as error:
        raise FileError(f"{path}: {error}") from error
    if isinstance(value, list):
        value = {"segments": value, "device_traces": []}
    if not isinstance(value, dict) or not isinstance(value.get("segments"), list | tuple):
        found = f"a {type(value).__name__}"
        if isinstance(value, dict):
            names = sorted(map(shown, list(value)[:1000]))[:6]
            found = "a dictionary of " + (", ".join(names) or "nothing")
        raise FileError(f"{path}: is {found[:200]}, not a memory snapshot; {_HOW}")
    try:
        return reader.devices(value, device)
    except ProfileError as error:
        raise FileError(f"{path}: {error}; save it again") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileError(
            f"{path}: the snapshot has a missing or invalid value "
            f"({type(error).__name__}: {error}); {_HOW}"
        ) from error


_SEEN: Final = object()
"""Placeholder for each event's dictionary. The placeholder's position in a list identifies the
event, because the columns have the order of the file. One object for all events saves a third of
the memory."""


class _Block(int):
    """Number of a block in the columns."""

    __slots__ = ()


class _Reader:
    """Converter of a snapshot's dictionaries into columns while the file is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.odd = OddValues()
        self.stacks = Stacks(self.odd)
        self.events = EventColumns(self.stacks, self.odd)
        self.blocks: list[tuple[int, int, int, bool, int]] = []

    def take(self, found: dict[Any, Any]) -> Any:
        """Replace the dictionary of an event, block or frame; keep any other. Hook of `load`."""
        try:
            if "action" in found:
                self.events.add(found)
                return _SEEN
            if "state" in found:
                return self._block(found)
            if "filename" in found or ("line" in found and "name" in found):
                return self.stacks.frame(found)
            return found
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            self._wrong(f"an event, a block or a frame has invalid values ({error})")

    def devices(self, value: Mapping[str, Any], device: int | None) -> list[Imported]:
        """Return the results for the wanted devices of the snapshot."""
        segments = value["segments"]
        host = value.get("host_segments") or []
        self._check_blocks(segments=segments, host_segments=host)
        rows = self._rows(value)
        numbers = {device_number(number) for number in rows if number != HOST}
        owners = [device_number(segment.get("device", 0)) for segment in segments]
        numbers.update(owners)
        pinned = bool(host) or HOST in rows
        if pinned and (device == HOST or not numbers):
            numbers.add(HOST)
        if not numbers:
            raise FileError(
                f"{self.path}: the snapshot holds no events and no segments: nothing was allocated "
                f"on a GPU, or no history was recorded; {_HOW}"
            )
        if device is not None and device not in numbers:
            there = ", ".join(map(str, sorted(numbers)))
            raise FileError(f"{self.path}: has no memory of device {device}; choose from {there}")
        wanted = sorted(numbers) if device is None else [device]
        settings = settings_of(value.get("allocator_settings"))
        annotations = annotations_of(value.get("external_annotations"), self.odd)
        made = []
        for number in wanted:
            own = [s for s, owner in zip(segments, owners, strict=True) if owner == number]
            own = list(host) if number == HOST else own
            seen = rows.get(number, np.arange(0))
            last = number == wanted[-1]
            made.append(self._device(number, seen, own, settings, annotations, last))
        if pinned and HOST not in wanted:
            counted = f"{len(rows.get(HOST, ()))} events; import this memory with --device {HOST}"
            made[0].notes["pinned memory of the host"] = counted
        return made

    def _check_blocks(self, **parts: list[dict[str, Any]]) -> None:
        """Refuse segments that list a block twice: a small file could describe a huge snapshot."""
        seen = 0
        for name, segments in parts.items():
            for number, segment in enumerate(segments):
                for block in segment.get("blocks", ()):
                    if type(block) is not _Block:
                        self._wrong(f"{name}[{number}] has entries that are not blocks")
                    seen += 1
                    if seen > len(self.blocks):
                        self._wrong("the segments list a block more than once")

    def _rows(self, value: Mapping[str, Any]) -> dict[int, NDArray[np.int64]]:
        """Return the event rows of each device, after checking that each event is used once."""
        traces: list[tuple[int, list[Any]]] = []
        for name in value:  # The columns have the order of the file.
            if name == "device_traces":
                traces += (own for own in enumerate(value[name] or ()) if len(own[1]))
            elif name == "host_traces" and value[name]:
                traces.append((HOST, value[name]))
        edges = [0, *accumulate(len(trace) for _, trace in traces)]
        # Check the total first, because the file may repeat one list any number of times.
        few = edges[-1] <= len(self.events) + _MOST_SURPLUS
        for number, trace in traces if few else ():
            if not all(event is _SEEN for event in trace):
                name = "host_traces" if number == HOST else f"device_traces[{number}]"
                self._wrong(f"{name} has entries that are not events")
        if edges[-1] != len(self.events):
            self._wrong(
                f"the traces have {edges[-1]} entries for {len(self.events)} events; each event "
                "must be in one trace, once"
            )
        parts = zip(traces, pairwise(edges), strict=True)
        made = {number: np.arange(low, high) for (number, _), (low, high) in parts}
        for name in ("device_traces", "host_traces"):
            if isinstance(value.get(name), list):
                value[name].clear()
        return made

    def _device(
        self,
        number: int,
        rows: NDArray[np.int64],
        segments: list[dict[str, Any]],
        settings: dict[str, str],
        annotations: list[dict[str, Any]],
        last: bool,
    ) -> Imported:
        rows = self.events.readable(rows)
        if 2 * self.events.left_out > len(self.events):
            self._wrong(f"most events have invalid values, the first: {self.odd.reason('event')}")
        seen = self.events.columns(rows)
        if last:  # The columns hold the events of all devices.
            self.events.clear()
        marks = find_marks(seen.time, annotations, number)
        private = private_segments(segments)
        notes = self._notes(rows, seen) | private_note(private)
        plain, pages, blocks = self._segments(segments)
        if any(segment.get("is_expandable") for segment in segments):
            settings = {"expandable_segments": "True", **settings}
        marked = with_marks(seen, marks.rows)
        whole, before, repairs = complete(marked, plain, pages, blocks)
        whole = drop_unknown_origins(whole, before)
        tag, tags = self.stacks.tagged(whole)
        start = int(seen.time[0]) if len(seen) else 0
        if marks.rows:
            notes["marks"] = marks.explanation
        try:
            trace = Trace(
                kind=whole.kind,
                address=whole.address,
                size=whole.size,
                stream=whole.stream,
                tag=tag,
                time=np.where(whole.time > 0, np.maximum(whole.time - start, 0), 0),
                before=before,
                device=max(0, number),
                settings=settings,
                tags=tags,
                private=private,
            )
        except ProfileError as error:
            raise FileError(f"{self.path}: device {number}: {error}; save it again") from error
        name = "cpu" if number == HOST else f"cuda:{number}"
        return Imported(trace, "torch", name, {**notes, **repairs, **self.odd.notes()})

    def _block(self, found: dict[str, Any]) -> _Block:
        try:
            self.blocks.append(self._read_block(found))
        except ValueError as error:
            self.odd.add("block", str(error))
            self.blocks.append((-1, 0, 0, False, -1))
        return _Block(len(self.blocks) - 1)

    def _read_block(self, found: dict[str, Any]) -> tuple[int, int, int, bool, int]:
        """Return a block's address, size, requested size, whether it is alive, and its stack."""
        state = text(found["state"], "its state")
        size = integer(found.get("size", 0), "its size")
        requested = found.get("requested_size")
        return (
            integer(found.get("address", -1), "its address", -1),
            size,
            size if requested is None else integer(requested, "its requested size"),
            state.startswith("active"),
            self.stacks.number(found.get("frames", ())),
        )

    def _segments(self, segments: list[dict[str, Any]]) -> tuple[Rows, Rows, Rows]:
        """Return rows of plain segments, mapped ranges of expandable segments, and live blocks."""
        plain, pages, alive = [], [], []
        for segment in segments:
            low = integer(segment["address"], "the address of a segment")
            total = integer(segment["total_size"], "the size of a segment")
            stream = segment.get("stream", 0) & _MASK
            if segment.get("is_expandable"):
                pages.append((int(Event.SEGMENT_MAP), low, total, stream, -1))
            else:
                plain.append((int(Event.SEGMENT_ALLOC), low, total, stream, -1))
            for block in segment.get("blocks", ()):
                address, size, requested, active, stack = self.blocks[block]
                if active and requested:
                    own = low if address < 0 else address
                    alive.append((int(Event.ALLOC), own, requested, stream, stack))
                low += size
        return Rows.make(plain), Rows.make(pages), Rows.make(alive)

    def _notes(self, rows: NDArray[np.int64], seen: Rows) -> dict[str, str]:
        notes = {"events": str(len(seen))}
        if self.events.unknown:
            counted = ", ".join(
                f"{count} of {name!r}" for name, count in self.events.unknown.most_common(5)
            )
            notes["unknown events"] = f"{counted}; ignored"
        failed = np.flatnonzero(seen.kind == Event.OOM)
        if len(failed):
            free = [self.events.free[row] for row in rows[failed].tolist()]
            counted = ", ".join(
                f"{format_bytes(size)} with {format_bytes(left)} free on the device"
                for size, left in list(zip(seen.size[failed].tolist(), free, strict=True))[:3]
            )
            more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
            notes["out of memory"] = counted + more
        return notes

    def _wrong(self, what: str) -> NoReturn:
        raise FileError(f"{self.path}: {what}; {_HOW}")
