"""Chrome traces of PyTorch's profiler (kineto), recorded with `profile_memory=True`.

    {"ph": "i", "name": "[memory]", "ts": 12.5, "args": {"Device Type": 1, "Device Id": 0,
     "Addr": 139871, "Bytes": -512, "Total Allocated": 0, "Total Reserved": 2097152}}

A positive number of bytes is a request, a negative one a free; "[OutOfMemory]" is a request that
failed. The operators and Python functions that were running on the same thread give the origin,
`ProfilerStep#N` gives the iterations.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from pgmo.errors import FileError
from pgmo.profiler.importers.checked_values import device_number, integer, microseconds, shown, text
from pgmo.profiler.importers.contents import text_of
from pgmo.profiler.importers.event_log import EventLog, choose_device
from pgmo.profiler.importers.frames import OUTERMOST, CallFacts, tag_of_calls
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.importers.marks import find_marks
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import MOST_SIZE, Event
from pgmo.units import format_bytes

_MEMORY: Final = "[memory]"
_FAILED: Final = "[OutOfMemory]"
_STEPS: Final = ("ProfilerStep#", "Optimizer.step#")
_CPU: Final = 0  # "Device Type"
_FUNCTION = re.compile(r"(.+)\((\d+)\): (.+)")
_LIBRARY = re.compile(r"(^|/)(torch|site-packages|lib/python3\.\d+)/|^<frozen ")
_MOST_RUNNING = 1024  # of the calls that are inside of each other
_MOST_NAME = 200  # characters of a line
_FEW = 1024  # objects and lists that any file may have,
_APART = 4  # and one more for so many characters: each takes 64 bytes of memory
_HOW = "record it with torch.profiler.profile(profile_memory=True) and export_chrome_trace"


def read_chrome_trace(path: Path, device: int | None = None) -> list[Imported]:
    """Reads a trace: its GPUs, or, where none is in it, the memory of the CPU.

    Raises:
        FileError: when it is no JSON, or has no memory events.

    Example:
        >>> event = {"name": "[memory]", "ts": 1, "args": {"Addr": 64, "Bytes": 8}}
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.json"
        ...     size = path.write_text(json.dumps({"traceEvents": [event]}))
        ...     read_chrome_trace(path)[0].device
        'cpu'
    """
    content = text_of(path)
    containers = content.count("{") + content.count("[")
    if containers > _FEW + len(content) // _APART:
        raise FileError(
            f"{path}: has {containers} objects and lists in {len(content)} characters; a trace has "
            "a third of that at most: check what it is"
        )
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: is no complete JSON ({error}); export it again") from error
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list):
        raise FileError(f"{path}: has no list 'traceEvents', so it is no Chrome trace; {_HOW}")
    try:
        return _read(path, [event for event in events if isinstance(event, dict)], device)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise FileError(
            f"{path}: an event lacks something or has a value of another kind "
            f"({type(error).__name__}: {error}); {_HOW}"
        ) from error


def _read(path: Path, events: list[dict[str, Any]], device: int | None) -> list[Imported]:
    memory = [event for event in events if event.get("name") in (_MEMORY, _FAILED)]
    if not memory:
        raise FileError(f"{path}: none of its {len(events)} events is of memory; {_HOW}")
    memory.sort(key=_time)
    on_cpu = [event for event in memory if _kind(event) == _CPU]
    on_gpu = [event for event in memory if _kind(event) != _CPU]
    tags = _tags([event for event in events if event.get("ph") == "X"], memory)
    annotations = _annotations(events)
    chosen = on_gpu or on_cpu
    notes = {"left out": f"{len(on_cpu)} events of the CPU"} if on_gpu and on_cpu else {}
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in chosen:
        number = integer(event["args"].get("Device Id", 0), "Device Id", -1)  # -1 for a CPU
        groups[device_number(max(0, number))].append(event)
    made = []
    for number in choose_device(path, list(groups), device):
        own = groups[number]
        log = EventLog()
        firsts = []  # the row of each event, for a free has two
        for event in own:
            firsts.append(len(log))
            _add(log, event, tags[id(event)])
        time = np.array([int(_time(event)) for event in own], np.int64)
        marks = find_marks(time, np.zeros(len(own), np.int32), [""], annotations, number)
        rows = [([*firsts, len(log)])[row] for row in marks.rows]
        told = dict(notes)
        failed = [format_bytes(_size(one)) for one in own if one["name"] == _FAILED]
        if failed:
            told["out of memory"] = ", ".join(failed[:3])
        reserved = max(_number(event, "Total Reserved") for event in own)
        if reserved:
            told["peak reserved"] = format_bytes(reserved)
        if rows:
            told["marks"] = marks.explanation
        name = f"cuda:{number}" if on_gpu else "cpu"
        made.append(log.imported(path, "torch", name, number, rows, told))
    return made


def _kind(event: dict[str, Any]) -> int:
    return _number(event, "Device Type")


def _number(event: dict[str, Any], name: str) -> int:
    """A number that may be missing."""
    return integer(event["args"].get(name, 0), name)


def _time(event: dict[str, Any]) -> float:
    return microseconds(event["ts"], "ts")


def _size(event: dict[str, Any]) -> int:
    return integer(event["args"]["Bytes"], "Bytes", -MOST_SIZE, MOST_SIZE)


def _add(log: EventLog, event: dict[str, Any], tag: Tag) -> None:
    time, size = int(_time(event)), _size(event)
    if event["name"] == _FAILED:
        log.add(Event.OOM, 0, size, time=time, tag=tag)
        return
    address = event["args"]["Addr"]
    address = integer(int(address, 0) if isinstance(address, str) else address, "Addr")
    if size > 0:
        log.add(Event.ALLOC, address, size, time=time, tag=tag)
    elif size < 0:
        log.free(address, -size, time=time)


def _annotations(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Profiler steps and optimizer steps in the form of a snapshot's annotations."""
    made = []
    for event in events:
        name = event.get("name")
        if event.get("ph") != "X" or not isinstance(name, str) or not name.startswith(_STEPS):
            continue
        if "gpu" in shown(event.get("cat", "")):  # the same again, as the GPU saw it
            continue
        begin = _time(event)
        end = begin + microseconds(event.get("dur", 0), "dur")
        for stage, at in (("START", begin), ("END", end)):
            made.append({"name": name, "stage": stage, "time_us": int(at)})
    return made


def _tags(calls: list[dict[str, Any]], memory: list[dict[str, Any]]) -> dict[int, Tag]:
    """The origin of each memory event, by its identity: what was running on its thread."""
    threads: dict[tuple[Any, Any], list[tuple[float, float, dict[str, Any]]]] = defaultdict(list)
    for event in calls:
        length = microseconds(event.get("dur", 0), "dur")
        threads[_thread(event)].append((_time(event), -length, event))
    for event in memory:
        threads[_thread(event)].append((_time(event), 1.0, event))
    made: dict[int, Tag] = {}
    told: dict[str, CallFacts] = {}
    for rows in threads.values():
        rows.sort(key=lambda row: row[:2])
        running: list[tuple[float, CallFacts]] = []
        for begin, negative, event in rows:
            while running and running[-1][0] < begin:
                running.pop()
            if event["name"] in (_MEMORY, _FAILED):
                inner = running[max(OUTERMOST, len(running) - _MOST_RUNNING) :]
                ends = [*running[:OUTERMOST], *inner]
                made[id(event)] = tag_of_calls([call for _, call in reversed(ends)])
            else:
                name = event["name"]
                if name not in told:
                    told[name] = _call(name)
                running.append((begin - negative, told[name]))
    return made


def _thread(event: dict[str, Any]) -> tuple[str, str]:
    """The thread of an event; the profiler names some processes by words."""
    return shown(event.get("pid")), shown(event.get("tid"))


def _call(name: Any) -> CallFacts:
    """What one call tells."""
    name = text(name, "the name of a call")
    if name.startswith("aten::"):
        return CallFacts(operator=name[:_MOST_NAME].replace("::", "."))
    phase = ""
    if name.startswith(("Optimizer.step#", "torch/optim/")):
        phase = "optimizer"
    elif name.startswith("autograd::engine::evaluate_function"):
        phase = "backward"
    elif name.startswith("nn.Module: "):
        phase = "forward"
    found = _FUNCTION.fullmatch(name)
    if not found:
        return CallFacts(phase=phase)
    line = f"{found[1].rsplit('/', 1)[-1]}:{found[2]} in {found[3]}"[:_MOST_NAME]
    return CallFacts(line, not _LIBRARY.search(found[1]), phase=phase)
