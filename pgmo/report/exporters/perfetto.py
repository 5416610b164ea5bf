"""Timelines for ui.perfetto.dev and chrome://tracing, in the JSON of the Trace Event Format.

    process   "stream 7"                    one per stream; one for blocks without a slot
      counter "live bytes"                  ph C, at every tick at which it changes
      thread  "+1.50 MiB"                   one lane per address: bars of a thread must not overlap
        slice "aten.mm"                     ph X: a block, its origin in `args`

One tick is one microsecond. The timeline shows one period of the steady state. A block that lives
into the next iteration appears at the end and at the beginning.

Sources: the Trace Event Format, and Perfetto's page "External trace formats: Chrome JSON format".
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.report.exporters.lanes import in_lanes, in_one_turn, slots_in_one_turn
from pgmo.units import format_bytes
from pgmo.version import __version__

_Column = NDArray[np.int64]


def write_perfetto(source: Profile | Plan, out: TextIO) -> None:
    """Write the timeline of a profile or a plan.

    Each offset of a plan, or address of a profile, has its own lanes. Without addresses, or with
    more than 1000, there are as few lanes as possible.
    """
    kind = "plan" if isinstance(source, Plan) else "profile"
    head = {
        "displayTimeUnit": "ns",
        "otherData": {
            "made_by": f"pgmo {__version__}, from a {kind}",
            "time": "1 us is one request of the iteration",
            "ticks": source.ticks,
            "fingerprint": source.fingerprint,
            **{name: text for name, text in asdict(source.meta).items() if name != "notes"},
        },
    }
    begin = json.dumps(head)[:-1]
    out.write(f'{begin}, "traceEvents": [')
    separator = "\n"
    for event in _events(source):  # one by one, because there may be many
        out.write(separator + json.dumps(event))
        separator = ",\n"
    out.write("\n]}\n")


def _events(source: Profile | Plan) -> Iterator[dict[str, Any]]:
    planned = (source.end != NEVER) & ~source.shared
    pid = 0
    for stream in np.unique(source.stream[planned]).tolist():
        pid += 1
        rows = np.flatnonzero(planned & (source.stream == np.uint64(stream)))
        yield from _process(source, pid, f"stream {stream}", rows)
    others = np.flatnonzero(~planned)
    if len(others):
        yield from _process(source, pid + 1, "persistent or shared: not planned", others)


def _process(
    source: Profile | Plan, pid: int, name: str, rows: _Column
) -> Iterator[dict[str, Any]]:
    begin, end, row, place = _bars(source, rows)
    lane, addresses = in_lanes(begin, end, place)
    yield _metadata("process_name", pid, 0, {"name": name})
    yield _metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for number, at in enumerate(addresses):
        title = f"lane {number}"
        if at is not None and at != UNPLANNED:
            title = f"+{format_bytes(at)}" if isinstance(source, Plan) else f"0x{at:x}"
        yield _metadata("thread_name", pid, number + 1, {"name": title})
        yield _metadata("thread_sort_index", pid, number + 1, {"sort_index": number})
    yield from _counter(pid, begin, end, source.size[row], source.ticks)
    order = np.lexsort((begin, lane))
    for bar in order.tolist():
        low = int(begin[bar])
        yield {
            **_block(source, int(row[bar]), int(place[bar])),
            "ph": "X",
            "pid": pid,
            "tid": int(lane[bar]) + 1,
            "ts": low,
            "dur": int(end[bar]) - low,
        }


def _bars(source: Profile | Plan, rows: _Column) -> tuple[_Column, _Column, _Column, _Column]:
    """Return begin, end, row and address (or offset) of each bar, each of shape (p,)."""
    if isinstance(source, Plan):
        return slots_in_one_turn(source, rows)
    end = np.where(source.end[rows] == NEVER, source.ticks, source.end[rows])
    begin, end, of = in_one_turn(source.start[rows], end, source.ticks)
    place = source.address[rows[of]]
    return begin, end, rows[of], np.where(place > 0, place, UNPLANNED)


def _counter(
    pid: int, begin: _Column, end: _Column, size: _Column, ticks: int
) -> Iterator[dict[str, Any]]:
    change = np.zeros(ticks + 1, np.int64)
    np.add.at(change, begin, size)
    np.add.at(change, end, -size)
    load = np.cumsum(change)
    changed = np.flatnonzero(np.diff(load, prepend=-1))
    for tick in changed.tolist():
        value = int(load[tick])
        yield {"ph": "C", "name": "live bytes", "pid": pid, "ts": tick, "args": {"value": value}}


def _block(source: Profile | Plan, row: int, place: int) -> dict[str, Any]:
    end = int(source.end[row])
    size = int(source.size[row])
    arguments: dict[str, Any] = {
        "block": row,
        "size": format_bytes(size),
        "bytes": size,
        "start": int(source.start[row]),
        "end": "never" if end == NEVER else end,
    }
    if isinstance(source, Plan):
        if place != UNPLANNED:
            arguments["offset"] = place
        return {"name": format_bytes(size), "cat": "block", "args": arguments}
    tag = int(source.tag[row])
    origin = source.tags[tag] if tag >= 0 else Tag("", "", "")
    if place != UNPLANNED:
        arguments["address"] = f"0x{place:x}"
    for name in ("module", "op", "phase", "file"):
        if getattr(origin, name):
            arguments[name] = getattr(origin, name)
    if origin.stack:
        arguments["stack"] = "\n".join(origin.stack)
    name = origin.op or origin.module or format_bytes(size)
    return {"name": name, "cat": origin.phase or "block", "args": arguments}


def _metadata(kind: str, pid: int, tid: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": arguments}
