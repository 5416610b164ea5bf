"""Unused part of the framework's reserved memory, measured by the addresses in a trace.

segment  [ block A |  hole  | block B |      hole      ]     reserved = blocks + holes
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import CUDA_ALIGNMENT
from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import live_bytes
from pgmo.report.findings.unused_memory import UnusedMemory, reserved_ranges, unused_in_trace

_TAKES = (Event.SEGMENT_ALLOC, Event.SEGMENT_MAP)
_GIVES = (Event.SEGMENT_FREE, Event.SEGMENT_UNMAP)


@dataclass(frozen=True)
class Fragmentation:
    """Reserved and used memory of a trace; sizes in bytes.

    Args:
        peak_reserved: peak of the reserved bytes.
        live_then: requested bytes of live blocks at the peak of the reserved bytes. If several
            rows have this peak, the largest value.
        peak_live: peak of the requested bytes of live blocks.
        reserved_then: reserved bytes at the peak of live bytes.
        segments: number of segments at the peak of live bytes; adjacent segments count as one.
        holes: number of free ranges of at least 512 bytes in these segments.
        largest_hole: size of the largest hole.
        hole_bytes: sum of the sizes of all holes.
        unused: unrequested part of the reserved bytes at their peak, by reason.
    """

    peak_reserved: int
    live_then: int
    peak_live: int
    reserved_then: int
    segments: int
    holes: int
    largest_hole: int
    hole_bytes: int
    unused: UnusedMemory = field(default_factory=UnusedMemory)

    @property
    def waste(self) -> float:
        """Unrequested share of the reserved bytes at their peak, from 0 to 1."""
        return 1 - self.live_then / self.peak_reserved if self.peak_reserved else 0.0


def find_fragmentation(trace: Trace) -> Fragmentation | None:
    """Return the fragmentation of a trace; None if it has no segments."""
    reserved = reserved_curve(trace)
    if not reserved.any():
        return None
    live = live_bytes(trace)
    # If several rows have this peak, use the row with the least waste.
    fullest = int(np.where(reserved == reserved.max(), live, -1).argmax())
    busiest = int(live.argmax())
    held = _segments(trace, busiest)
    holes = _holes(held, _blocks(trace, busiest))
    return Fragmentation(
        peak_reserved=int(reserved[fullest]),
        live_then=int(live[fullest]),
        peak_live=int(live[busiest]),
        reserved_then=int(reserved[busiest]),
        segments=len(held),
        holes=len(holes),
        largest_hole=max(holes, default=0),
        hole_bytes=sum(holes),
        unused=unused_in_trace(trace, fullest),
    )


def reserved_curve(trace: Trace) -> NDArray[np.int64]:
    """Return the reserved bytes after each row of a trace, shape (m,); 0 without segments."""
    takes, gives = np.isin(trace.kind, _TAKES), np.isin(trace.kind, _GIVES)
    return np.cumsum(np.where(takes, trace.size, 0) - np.where(gives, trace.size, 0))


def _segments(trace: Trace, row: int) -> list[tuple[int, int]]:
    """Return the reserved address ranges after a row, in order; adjacent ranges are joined."""
    joined: list[tuple[int, int]] = []
    for one in reserved_ranges(trace, row):
        if joined and one.start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], one.end))
        else:
            joined.append((one.start, one.end))
    return joined


def _blocks(trace: Trace, row: int) -> list[tuple[int, int]]:
    """Return the ranges of blocks after a row, including freed blocks that streams still use."""
    occupied = trace.blocks.occupied(row)
    start = trace.address[trace.blocks.row[occupied]]
    order = np.argsort(start)
    ends = start + trace.blocks.size[occupied]
    return list(zip(start[order].tolist(), ends[order].tolist(), strict=True))


def _holes(segments: list[tuple[int, int]], blocks: list[tuple[int, int]]) -> list[int]:
    """Return the sizes of free ranges of at least 512 bytes. Padding of blocks is not free."""
    holes = []
    at = 0
    for begin, end in segments:
        free = begin
        while at < len(blocks) and blocks[at][0] < end:
            start, stop = blocks[at]
            at += 1
            if start < begin:
                continue
            holes.append(start - free)
            free = max(free, -(-stop // CUDA_ALIGNMENT) * CUDA_ALIGNMENT)
        holes.append(end - free)
    return [hole for hole in holes if hole >= CUDA_ALIGNMENT]
