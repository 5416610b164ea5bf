"""Logs of RMM's `LoggingResourceAdaptor`, which are CSV files.

Thread,Time,Action,Pointer,Size,Stream
21792,10:19:32.000123,allocate,0x7f3c86000000,1000,0x0
21792,10:19:32.000456,free,0x7f3c86000000,1000,0x0
21792,10:19:32.000789,allocate failure,(nil),9000000000,0x0

Logs of the first versions have a colon before the microseconds.
"""

import csv
import io
import re
from pathlib import Path

from pgmo.errors import FileError
from pgmo.profiler.importers.contents import text_of
from pgmo.profiler.importers.event_log import EventLog, choose_device
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.trace import Event
from pgmo.units import format_bytes

NEEDED = ("Action", "Pointer", "Size")
"""Columns that tell such a log."""

_TIME = re.compile(r"(\d+):(\d+):(\d+)(?:[.:](\d+))?")
_DAY = 24 * 60 * 60 * 1_000_000


def read_rmm_log(path: Path, device: int | None = None) -> list[Imported]:
    r"""Reads a log. It does not say which device it is of: it counts as device 0.

    Raises:
        FileError: naming a line that is cut off or lacks something.

    Example:
        >>> import tempfile
        >>> text = "Time,Action,Pointer,Size,Stream\n10:19:32.000123,allocate,0x40,8,0x0\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.csv"
        ...     size = path.write_text(text)
        ...     read_rmm_log(path)[0].trace.address.tolist()
        [64]
    """
    log, failures = EventLog(), []
    lines = csv.DictReader(io.StringIO(text_of(path), newline=""))
    lines.fieldnames = [name.strip() for name in lines.fieldnames or ()]
    days, last = 0, 0
    for row in lines:
        try:
            time = _microseconds(row.get("Time") or "") + days
            if time < last - _DAY // 2:  # past midnight
                days, time = days + _DAY, time + _DAY
            last = max(last, time)
            action, size = row["Action"].strip(), int(row["Size"])
            address, stream = _number(row["Pointer"]), _number(row.get("Stream") or "0")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileError(
                f"{path}, line {lines.line_num}: is no complete line of an RMM log ({error}); "
                "remove this line"
            ) from error
        if action == "allocate" and size > 0:
            log.add(Event.ALLOC, address, size, stream=stream, time=time)
        elif action == "free" and size > 0:
            log.free(address, size, stream=stream, time=time)
        elif action == "allocate failure":
            log.add(Event.OOM, 0, size, stream=stream, time=time)
            failures.append(format_bytes(size))
    notes = {"out of memory": ", ".join(failures[:3])} if failures else {}
    choose_device(path, [0], device)
    return [log.imported(path, "rmm", "cuda:0", 0, notes=notes)]


def _microseconds(text: str) -> int:
    if not text.strip():
        return 0
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()!r} is no time such as 10:19:32.000123")
    hours, minutes, seconds = (int(part) for part in found.groups()[:3])
    rest = int((found[4] or "").ljust(6, "0")[:6])
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + rest


def _number(text: str) -> int:
    text = text.strip()
    return 0 if text in ("", "(nil)", "nullptr") else int(text, 0)
