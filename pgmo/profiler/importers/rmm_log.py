"""Importer of logs of RMM's `LoggingResourceAdaptor`, which are CSV files.

Thread,Time,Action,Pointer,Size,Stream
21792,10:19:32.000123,allocate,0x7f3c86000000,1000,0x0
21792,10:19:32.000456,free,0x7f3c86000000,1000,0x0
21792,10:19:32.000789,allocate failure,(nil),9000000000,0x0

Logs of RMM's first versions have a colon before the microseconds.
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from pgmo.errors import FileError
from pgmo.profiler.importers.checked_values import integer
from pgmo.profiler.importers.contents import text_of
from pgmo.profiler.importers.event_log import EventLog, choose_device
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.trace import MOST_SIZE, Event
from pgmo.units import format_bytes

NEEDED = ("Action", "Pointer", "Size")
"""Columns that identify an RMM log."""

_TIME = re.compile(r"(\d{1,4}):(\d{1,4}):(\d{1,4})(?:[.:](\d+))?")
_INTEGER = re.compile(r"-?[0-9]{1,40}|0[xX][0-9a-fA-F]{1,40}")
_DAY = 24 * 60 * 60 * 1_000_000


def read_rmm_log(path: Path, device: int | None = None) -> list[Imported]:
    """Read a log. RMM's logs name no device, so device 0 is assumed.

    Raises:
        FileError: if a line is incomplete or invalid; the message names the line. Also if
            `device` is neither None nor 0.
    """
    log, failures = EventLog(), []
    days, last = 0, 0
    for line, (action, pointer, size_text, time_text, stream_text) in _rows(path):
        try:
            time = _microseconds(time_text) + days
            if time < last - _DAY // 2:  # Past midnight.
                days, time = days + _DAY, time + _DAY
            last = max(last, time)
            action = action.strip()
            if not size_text.strip():
                raise ValueError("Size is empty")
            size = integer(_number(size_text), "Size", 0, MOST_SIZE)
            address = integer(_number(pointer), "Pointer")
            stream = integer(_number(stream_text), "Stream", 0, 2**64 - 1)
        except ValueError as error:
            raise FileError(
                f"{path}, line {line}: is not a valid line of an RMM log ({error}); "
                "remove this line"
            ) from error
        if action == "allocate" and size > 0:
            log.add(Event.ALLOC, address, size, stream=stream, time=time)
        elif action == "free" and size > 0:
            log.free(address, size, stream=stream, time=time)
        elif action == "allocate failure":
            log.add(Event.OOM, 0, size, stream=stream, time=time)
            failures.append(format_bytes(size))
    more = f" and {len(failures) - 3} more" if len(failures) > 3 else ""
    notes = {"out of memory": ", ".join(failures[:3]) + more} if failures else {}
    choose_device(path, [0], device)
    return [log.imported(path, "rmm", 0, notes)]


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each line's number and cells: action, pointer, size, time, stream; "" if missing."""
    lines = csv.reader(io.StringIO(text_of(path), newline=""))
    try:
        header = [name.strip() for name in next(lines, [])]
        # If a column name occurs twice, the last one counts.
        place = {name: number for number, name in enumerate(header)}
        at = [place.get(name, -1) for name in (*NEEDED, "Time", "Stream")]
        needed = max(at[: len(NEEDED)])
        for row in lines:
            if not row:
                continue
            if len(row) <= needed:
                raise FileError(
                    f"{path}, line {lines.line_num}: is not a valid line of an RMM log: it has "
                    f"{len(row)} cells of {len(header)}; remove this line"
                )
            yield lines.line_num, [row[own] if 0 <= own < len(row) else "" for own in at]
    except csv.Error as error:  # For example, a cell has more than 131072 characters.
        raise FileError(f"{path}, line {lines.line_num}: {error}; remove this line") from error


def _microseconds(text: str) -> int:
    if not text.strip():
        return 0
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()[:40]!r} is not a time such as 10:19:32.000123")
    hours, minutes, seconds = (int(part) for part in found.groups()[:3])
    rest = int((found[4] or "").ljust(6, "0")[:6])
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + rest


def _number(text: str) -> int:
    text = text.strip()
    if text in ("", "(nil)", "nullptr"):
        return 0
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number")
    return int(text, 16 if text[:2] in ("0x", "0X") else 10)
