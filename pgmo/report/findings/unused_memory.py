"""Reserved bytes that no block had requested, by the reason why these bytes are unused.

segment of stream 0   [ block | between blocks | block | at the end ]
segment of stream 0   [ free                                        ]
segment of stream 7   [ block | of another stream                   ]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from pgmo.profiler.profile import CUDA_ALIGNMENT
from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import NOT_FREED
from pgmo.units import format_bytes

LEAST_SHOWN = 1 << 20
"""Minimum bytes of a part that a report shows."""


@dataclass(frozen=True)
class UnusedMemory:
    """Unused reserved bytes by reason, for requests on one stream.

    Args:
        between: free ranges between two blocks of one segment.
        ends: free parts at the beginning and the end of segments with a block. These parts cannot
            merge with a neighbouring segment.
        segments: segments without a block. empty_cache() frees them.
        streams: free parts of segments that belong to other streams.
        pools: free parts of the private pools of CUDA graphs and `MemPool` objects.
        waiting: freed blocks that another stream may still use.
        rounding: bytes by which blocks are larger than requested.
    """

    between: int = 0
    ends: int = 0
    segments: int = 0
    streams: int = 0
    pools: int = 0
    waiting: int = 0
    rounding: int = 0

    @property
    def total(self) -> int:
        """Sum of all parts in bytes."""
        return sum(getattr(self, part.name) for part in fields(self))

    def parts(self) -> list[str]:
        """Return a phrase for each part of at least 1 MiB, largest first."""
        sizes = {part.name: int(getattr(self, part.name)) for part in fields(self)}
        shown = sorted((size, name) for name, size in sizes.items() if size >= LEAST_SHOWN)
        return [f"{format_bytes(size)} {WORDS[name]}" for size, name in reversed(shown)]


WORDS: Mapping[str, str] = {
    "between": "between live blocks",
    "ends": "at the ends of segments",
    "segments": "in segments without a block",
    "streams": "in segments of other streams",
    "pools": "in private pools",
    "waiting": "in freed blocks that another stream may use",
    "rounding": "in the rounding of block sizes",
}
"""Phrase for each part, to be printed after its size."""


class ReservedRange(NamedTuple):
    """Reserved range of addresses, in which only `stream` may allocate; `end` is exclusive."""

    start: int
    end: int
    stream: int
    is_private: bool


class TakenRange(NamedTuple):
    """Address range of a block, live or waiting to be reused.

    Args:
        start: first address.
        end: address after the last one; the size is rounded up.
        requested: bytes that the program requested; 0 once it has freed the block.
    """

    start: int
    end: int
    requested: int


def split_unused(
    segments: Iterable[ReservedRange], blocks: Sequence[TakenRange], stream: int
) -> UnusedMemory:
    """Return the unused reserved bytes by reason, for requests on `stream`."""
    ordered = sorted(blocks)
    starts = np.array([one.start for one in ordered], np.int64)
    sums = dict.fromkeys((part.name for part in fields(UnusedMemory)), 0)
    for segment in segments:
        low, high = np.searchsorted(starts, [segment.start, segment.end])
        inside = ordered[low:high]
        free = segment.start
        for at, block in enumerate(inside):
            sums[_kind(segment, stream, is_end=at == 0)] += max(0, block.start - free)
            free = max(free, min(block.end, segment.end))
            if block.requested:
                sums["rounding"] += max(0, block.end - block.start - block.requested)
            else:
                sums["waiting"] += block.end - block.start
        sums[_kind(segment, stream, is_end=True, is_empty=not inside)] += segment.end - free
    return UnusedMemory(**sums)


def unused_in_trace(trace: Trace, row: int) -> UnusedMemory:
    """Return the unused reserved bytes after a row of a trace, by reason.

    Free memory is classified for requests on the stream of the last request up to the row.
    """
    blocks = trace.blocks
    occupied = blocks.occupied(row)
    is_freed = (blocks.freed != NOT_FREED) & (blocks.freed <= row)
    start = trace.address[blocks.row[occupied]]
    requested = np.where(is_freed, 0, blocks.size)[occupied]
    rounded = -(-blocks.size[occupied] // CUDA_ALIGNMENT) * CUDA_ALIGNMENT
    taken = [
        TakenRange(one, one + own, asked)
        for one, own, asked in zip(
            start.tolist(), rounded.tolist(), requested.tolist(), strict=True
        )
    ]
    requests = np.flatnonzero(trace.kind[: row + 1] == Event.ALLOC)
    stream = int(trace.stream[requests[-1]]) if len(requests) else 0
    return split_unused(reserved_ranges(trace, row), taken, stream)


def unused_in_snapshot(segments: Iterable[Mapping[str, Any]], device: int) -> UnusedMemory:
    """Return the unused reserved bytes of a device in `torch.cuda.memory_snapshot()`, by reason.

    Free memory is classified for requests on the stream with the most live bytes.
    """
    reserved, taken = [], []
    live: dict[int, int] = {}
    for segment in segments:
        if segment["device"] != device:
            continue
        start, stream = int(segment["address"]), int(segment["stream"])
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        reserved.append(
            ReservedRange(start, start + int(segment["total_size"]), stream, pool != (0, 0))
        )
        at = start
        for block in segment["blocks"]:
            size, state = int(block["size"]), block["state"]
            at = int(block.get("address", at))
            if state == "active_allocated":
                requested = int(block.get("requested_size", size))
                taken.append(TakenRange(at, at + size, requested))
                live[stream] = live.get(stream, 0) + requested
            elif state != "inactive":
                taken.append(TakenRange(at, at + size, 0))
            at += size
    main = max(live, key=lambda one: live[one]) if live else 0
    return split_unused(reserved, taken, main)


def _kind(segment: ReservedRange, stream: int, *, is_end: bool, is_empty: bool = False) -> str:
    """Return the field of `UnusedMemory` that counts a free range of a segment."""
    if segment.is_private:
        return "pools"
    if segment.stream != stream:
        return "streams"
    if is_empty:
        return "segments"
    return "ends" if is_end else "between"


def reserved_ranges(trace: Trace, row: int) -> list[ReservedRange]:
    """Return the reserved ranges after a row. Adjacent mapped ranges of a stream are joined."""
    whole: dict[int, tuple[int, int]] = {}  # start -> end and stream
    mapped: dict[int, dict[int, int]] = {}  # stream -> address -> change in coverage
    kinds = (Event.SEGMENT_ALLOC, Event.SEGMENT_FREE, Event.SEGMENT_MAP, Event.SEGMENT_UNMAP)
    for one in np.flatnonzero(np.isin(trace.kind[: row + 1], kinds)).tolist():
        kind, start = trace.kind[one], int(trace.address[one])
        end, stream = start + int(trace.size[one]), int(trace.stream[one])
        if kind == Event.SEGMENT_ALLOC:
            whole[start] = (end, stream)
        elif kind == Event.SEGMENT_FREE:
            whole.pop(start, None)
        else:
            edges = mapped.setdefault(stream, {})
            sign = 1 if kind == Event.SEGMENT_MAP else -1
            edges[start] = edges.get(start, 0) + sign
            edges[end] = edges.get(end, 0) - sign
    found = [(start, end, stream) for start, (end, stream) in whole.items()]
    for stream, edges in mapped.items():
        cover, begin = 0, 0
        for address in sorted(edges):
            before, cover = cover, cover + edges[address]
            if before <= 0 < cover:
                begin = address
            elif cover <= 0 < before:
                found.append((begin, address, stream))
    private = [(one.address, one.address + one.size) for one in trace.private]
    return [
        ReservedRange(*one, any(low <= one[0] < high for low, high in private))
        for one in sorted(found)
    ]
