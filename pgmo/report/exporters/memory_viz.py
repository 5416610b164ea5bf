"""Snapshots for PyTorch's own viewer, https://pytorch.org/memory_viz, and `_memory_viz.py`.

    segments         an arena for each stream, and one segment for blocks without a slot
    device_traces    one period of the steady state: segment_alloc, then alloc and free in order

Blocks lie at their planned offsets. One tick is one microsecond. Blocks of the previous iteration
are requested at tick 0. Blocks that live into the next iteration are alive at the end. The file is
a pickle of dicts and lists, like PyTorch's.

Source: `torch/cuda/_memory_viz.py`, and the docstring of `_snapshot` in `torch/cuda/memory.py`.
"""

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import CUDA_ALIGNMENT, NEVER, Profile
from pgmo.report.exporters.lanes import in_one_turn, slots_in_one_turn

_BASE = 1 << 40
"""Address of the first segment. All other segments are at multiples of this address."""

_PAGE = 2**21

Event = dict[str, Any]
PlacedBlock = tuple[int, int, int, int]
"""First tick, end, address and row of a block in a segment."""


def memory_viz(source: Profile | Plan) -> bytes:
    """Return the pickle of a snapshot. Blocks of a profile get offsets from the fast packers."""
    return pickle.dumps(snapshot_of(source), protocol=4)


def snapshot_of(source: Profile | Plan) -> dict[str, Any]:
    """Return a snapshot as dicts and lists."""
    if isinstance(source, Plan):
        plan = source
    else:
        from pgmo.packing.planner import plan as make_plan

        plan = make_plan(source, effort="fast")
    segments, events = [], []
    for number, (stream, placed) in enumerate(_arenas(plan), 1):
        address = _BASE * number
        rows = [(low, high, address + place, row) for low, high, place, row in placed]
        ends = [at + int(plan.size[row]) for _, _, at, row in rows]
        size = -(-max((end - address for end in ends), default=0) // _PAGE) * _PAGE
        head = {"addr": address, "size": size, "stream": stream, "frames": [], "time_us": 0}
        events.append((0, 0, {"action": "segment_alloc", **head}))
        events += _block_events(rows, plan, source, stream)
        segments.append(_segment(address, size, stream, rows, plan, source))
    events.sort(key=lambda one: one[:2])
    return {
        "segments": segments,
        "device_traces": [[event for _, _, event in events]],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _arenas(plan: Plan) -> list[tuple[int, list[PlacedBlock]]]:
    """Return the blocks of each stream that have slots, then all blocks without a slot."""
    has_slot = plan.offset != UNPLANNED
    found = []
    for stream in np.unique(plan.stream[has_slot]).tolist():
        rows = np.flatnonzero(has_slot & (plan.stream == np.uint64(stream)))
        begin, end, row, place = slots_in_one_turn(plan, rows)
        columns = (begin.tolist(), end.tolist(), place.tolist(), row.tolist())
        found.append((int(stream), list(zip(*columns, strict=True))))
    others = np.flatnonzero(~has_slot)
    if others.size:
        found.append((int(plan.stream[others[0]]), _without_slots(plan, others)))
    return found


def _without_slots(plan: Plan, rows: NDArray[np.int64]) -> list[PlacedBlock]:
    """Place each block without a slot at a separate address. Persistent blocks are always alive."""
    never = plan.end[rows] == NEVER
    stays = [(0, plan.ticks + 1, row) for row in rows[never].tolist()]
    freed = rows[~never]
    begin, end, of = in_one_turn(plan.start[freed], plan.end[freed], plan.ticks)
    stays += zip(begin.tolist(), end.tolist(), freed[of].tolist(), strict=True)
    placed, at = [], 0
    for low, high, row in stays:
        placed.append((low, high, at, row))
        at += -(-int(plan.size[row]) // CUDA_ALIGNMENT) * CUDA_ALIGNMENT
    return placed


def _block_events(
    rows: list[PlacedBlock], plan: Plan, source: Profile | Plan, stream: int
) -> list[tuple[int, int, Event]]:
    """Return events with their tick and their rank in the tick: frees precede requests."""
    made = []
    for low, high, at, row in rows:
        size = int(plan.size[row])
        base = {"addr": at, "size": size, "stream": stream, "frames": _frames(source, row)}
        made.append((low, 2, {"action": "alloc", **base, "time_us": low}))
        if high < plan.ticks or (high == plan.ticks and not _is_alive_at_end(plan, row)):
            for action in ("free_requested", "free_completed"):
                made.append((high, 1, {"action": action, **base, "time_us": high}))
    return made


def _is_alive_at_end(plan: Plan, row: int) -> bool:
    return bool(plan.end[row] == NEVER or plan.end[row] > plan.ticks)


def _segment(
    address: int,
    size: int,
    stream: int,
    rows: list[PlacedBlock],
    plan: Plan,
    source: Profile | Plan,
) -> dict[str, Any]:
    """Return a segment at the end of the period: live blocks, and the free ranges between them."""
    alive = sorted(
        (at, row)
        for _, high, at, row in rows
        if high > plan.ticks or (high == plan.ticks and _is_alive_at_end(plan, row))
    )
    blocks: list[dict[str, Any]] = []
    at = address
    for low, row in alive:
        if low > at:
            blocks.append(_block(at, low - at, "inactive", []))
        length = int(plan.size[row])
        blocks.append(_block(low, length, "active_allocated", _frames(source, row)))
        at = low + length
    if at < address + size:
        blocks.append(_block(at, address + size - at, "inactive", []))
    held = sum(int(plan.size[row]) for _, row in alive)
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": held,
        "active_size": held,
        "requested_size": held,
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _block(address: int, size: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": size if state == "active_allocated" else 0,
        "state": state,
        "frames": frames,
    }


def _frames(source: Profile | Plan, row: int) -> list[dict[str, Any]]:
    """Return a frame for operator and module, then one per line of code; none for a plan."""
    number = int(source.tag[row]) if isinstance(source, Profile) else -1
    if number < 0 or not isinstance(source, Profile):
        return []
    tag = source.tags[number]
    frames = []
    if tag.op or tag.module:
        frames.append({"name": tag.op or tag.module, "filename": tag.module, "line": 0})
    for line in tag.stack or ((tag.file,) if tag.file else ()):
        place, _, name = line.partition(" in ")
        file, _, at = place.rpartition(":")
        numbered = at.isascii() and at.isdigit()
        frames.append(
            {
                "name": name,
                "filename": file if numbered else place,
                "line": int(at) if numbered else 0,
            }
        )
    return frames
