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
from pgmo.profiler.importers.contents import text_of
from pgmo.profiler.importers.event_log import EventLog, choose_device
from pgmo.profiler.importers.frames import shortened
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.importers.marks import find_marks
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event
from pgmo.units import format_bytes

_MEMORY: Final = "[memory]"
_FAILED: Final = "[OutOfMemory]"
_CPU: Final = 0  # "Device Type"
_FUNCTION = re.compile(r"(.+)\((\d+)\): (.+)")
_LIBRARY = re.compile(r"(^|/)(torch|site-packages|lib/python3\.\d+)/|^<frozen ")
_FACTORY = re.compile(r"aten::(empty|new_empty|resize_)")
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
    try:
        value = json.loads(text_of(path))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: is no complete JSON ({error}); export it again") from error
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list):
        raise FileError(f"{path}: has no list 'traceEvents', so it is no Chrome trace; {_HOW}")
    try:
        return _read(path, [event for event in events if isinstance(event, dict)], device)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise FileError(
            f"{path}: an event lacks something or has a value of another kind "
            f"({type(error).__name__}: {error}); {_HOW}"
        ) from error


def _read(path: Path, events: list[dict[str, Any]], device: int | None) -> list[Imported]:
    memory = [event for event in events if event.get("name") in (_MEMORY, _FAILED)]
    if not memory:
        raise FileError(f"{path}: none of its {len(events)} events is of memory; {_HOW}")
    memory.sort(key=lambda event: float(event["ts"]))
    on_cpu = [event for event in memory if _kind(event) == _CPU]
    on_gpu = [event for event in memory if _kind(event) != _CPU]
    tags = _tags([event for event in events if event.get("ph") == "X"], memory)
    annotations = _annotations(events)
    chosen = on_gpu or on_cpu
    notes = {"left out": f"{len(on_cpu)} events of the CPU"} if on_gpu and on_cpu else {}
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in chosen:
        groups[max(0, int(event["args"].get("Device Id", 0)))].append(event)
    made = []
    for number in choose_device(path, list(groups), device):
        own = groups[number]
        log = EventLog()
        firsts = []  # the row of each event, for a free has two
        for event in own:
            firsts.append(len(log))
            _add(log, event, tags[id(event)])
        time = np.array([int(float(event["ts"])) for event in own], np.int64)
        marks = find_marks(time, np.zeros(len(own), np.int32), [""], annotations, number)
        rows = [([*firsts, len(log)])[row] for row in marks.rows]
        told = dict(notes)
        failed = [format_bytes(int(one["args"]["Bytes"])) for one in own if one["name"] == _FAILED]
        if failed:
            told["out of memory"] = ", ".join(failed[:3])
        reserved = max(int(event["args"].get("Total Reserved", 0)) for event in own)
        if reserved:
            told["peak reserved"] = format_bytes(reserved)
        if rows:
            told["marks"] = marks.explanation
        name = f"cuda:{number}" if on_gpu else "cpu"
        made.append(log.imported(path, "torch", name, number, rows, told))
    return made


def _kind(event: dict[str, Any]) -> int:
    return int(event["args"].get("Device Type", _CPU))


def _add(log: EventLog, event: dict[str, Any], tag: Tag) -> None:
    args, time = event["args"], int(float(event["ts"]))
    if event["name"] == _FAILED:
        log.add(Event.OOM, 0, int(args["Bytes"]), time=time, tag=tag)
        return
    address = args["Addr"]
    address = int(address, 0) if isinstance(address, str) else int(address)
    size = int(args["Bytes"])
    if size > 0:
        log.add(Event.ALLOC, address, size, time=time, tag=tag)
    elif size < 0:
        log.free(address, -size, time=time)


def _annotations(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Profiler steps and optimizer steps in the form of a snapshot's annotations."""
    made = []
    for event in events:
        name = str(event.get("name", ""))
        if event.get("ph") != "X" or not name.startswith(("ProfilerStep#", "Optimizer.step#")):
            continue
        if "gpu" in str(event.get("cat", "")):  # the same again, as the GPU saw it
            continue
        begin = float(event["ts"])
        for stage, at in (("START", begin), ("END", begin + float(event.get("dur", 0)))):
            made.append({"name": name, "stage": stage, "time_us": int(at)})
    return made


def _tags(calls: list[dict[str, Any]], memory: list[dict[str, Any]]) -> dict[int, Tag]:
    """The origin of each memory event, by its identity: what was running on its thread."""
    threads: dict[tuple[Any, Any], list[tuple[float, float, dict[str, Any]]]] = defaultdict(list)
    for event in calls:
        begin = float(event["ts"])
        key = event.get("pid"), event.get("tid")
        threads[key].append((begin, -float(event.get("dur", 0)), event))
    for event in memory:
        key = event.get("pid"), event.get("tid")
        threads[key].append((float(event["ts"]), 1.0, event))
    made: dict[int, Tag] = {}
    for rows in threads.values():
        rows.sort(key=lambda row: row[:2])
        running: list[tuple[float, str]] = []
        for begin, negative, event in rows:
            while running and running[-1][0] < begin:
                running.pop()
            if event["name"] in (_MEMORY, _FAILED):
                made[id(event)] = _tag([name for _, name in reversed(running)])
            else:
                running.append((begin - negative, str(event["name"])))
    return made


def _tag(running: list[str]) -> Tag:
    """The tag for what was running, innermost first."""
    operators = [name for name in running if name.startswith("aten::")]
    op = next((name for name in operators if not _FACTORY.match(name)), (operators or [""])[0])
    phase = "other"
    for name in running:
        if name.startswith(("Optimizer.step#", "torch/optim/")):
            phase = "optimizer"
            break
        if name.startswith("autograd::engine::evaluate_function"):
            phase = "backward"
            break
        if name.startswith("nn.Module: "):
            phase = "forward"
    lines, file = [], ""
    for name in running:
        found = _FUNCTION.fullmatch(name)
        if found:
            line = f"{found[1].rsplit('/', 1)[-1]}:{found[2]} in {found[3]}"
            lines.append(line)
            if not file and not _LIBRARY.search(found[1]):
                file = line
    return Tag("", op.replace("::", "."), phase, file, shortened(lines))
