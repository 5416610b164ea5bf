"""Importer of the output of CuPy's `DebugPrintHook`: one JSON object per line.

    {"hook":"alloc","device_id":0,"mem_size":512,"mem_ptr":150496608256}            from the driver
    {"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7"}
    {"hook":"free","device_id":0,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7"}

No line shows that memory is returned to the driver. The importer notices the return when the driver
reuses the address. Lines that the program itself printed are skipped and counted.
"""

import json
from pathlib import Path

from pgmo.errors import FileError
from pgmo.profiler.importers.checked_values import device_number, integer
from pgmo.profiler.importers.contents import lines_of
from pgmo.profiler.importers.event_log import EventLog, choose_device
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.ranges import Ranges
from pgmo.profiler.trace import Event

_LONGEST = 4096  # Characters of a line; CuPy's lines have 150.

_BEGINNING = '{"hook":'
"""Beginning of each line that CuPy prints."""


def has_cupy_lines(beginning: str) -> bool:
    """Return whether a line at the beginning of a file begins like a line of the hook."""
    return f"\n{_BEGINNING}" in f"\n{beginning}"


def read_cupy_log(path: Path, device: int | None = None) -> list[Imported]:
    """Read the lines of a `DebugPrintHook`, with one result per device. All events are on stream 0.

    Raises:
        FileError: when a line of the hook is incomplete or invalid, or no line is of `device`.
    """
    logs: dict[int, EventLog] = {}
    segments: dict[int, Ranges] = {}  # By device.
    others = 0
    for number, line in enumerate(lines_of(path), 1):
        if not line.startswith(_BEGINNING):
            others += bool(line.strip())
            continue
        try:
            if len(line) > _LONGEST:
                raise ValueError(f"it has {len(line)} characters")
            found = json.loads(line)
            device_id = device_number(found["device_id"])
            log = logs.setdefault(device_id, EventLog())
            hook, address = found["hook"], integer(found["mem_ptr"], "mem_ptr")
            size = integer(found["mem_size"], "mem_size")
            if hook == "alloc" and size > 0:
                for old, own in segments.setdefault(device_id, Ranges()).replace(address, size):
                    log.add(Event.SEGMENT_FREE, old, own)
                log.add(Event.SEGMENT_ALLOC, address, size)
            elif hook == "malloc" and integer(found["size"], "size") > 0:
                log.add(Event.ALLOC, address, found["size"])
            elif hook == "free" and size > 0:
                log.free(address, size)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FileError(
                f"{path}, line {number}: {line[:80]!r} is not a valid line of CuPy's "
                f"DebugPrintHook ({type(error).__name__}: {error}); remove this line"
            ) from error
    notes = {"other lines": f"{others}, ignored"} if others else {}
    return [
        logs[own].imported(path, "cupy", own, notes)
        for own in choose_device(path, list(logs), device)
    ]
