"""Failed requests: the events of a trace at which memory ran out."""

from dataclasses import dataclass

import numpy as np

from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import live_bytes
from pgmo.report.blocks.origins import describe
from pgmo.report.findings.fragmentation import reserved_curve


@dataclass(frozen=True)
class Failure:
    """Request that failed for lack of memory; sizes in bytes.

    Args:
        row: row of the failure in the trace.
        size: requested bytes; 0 if the trace does not contain them.
        live: bytes of live blocks at that time.
        reserved: bytes of segments at that time; 0 if the trace has none.
        origin: origin of the request, in one line.
    """

    row: int
    size: int
    live: int
    reserved: int
    origin: str

    @property
    def unused(self) -> int:
        """Reserved bytes outside of live blocks: an upper bound on the cost of fragmentation."""
        return max(0, self.reserved - self.live)


def find_failures(trace: Trace) -> tuple[Failure, ...]:
    """Return the requests of a trace that ran out of memory, in order."""
    rows = np.flatnonzero(trace.kind == Event.OOM)
    if not rows.size:
        return ()
    live, reserved = live_bytes(trace), reserved_curve(trace)
    found = []
    for row in rows.tolist():
        tag = int(trace.tag[row])
        found.append(
            Failure(
                row=row,
                size=int(trace.size[row]),
                live=int(live[row]),
                reserved=int(reserved[row]),
                origin=describe(trace.tags[tag] if tag >= 0 else None),
            )
        )
    return tuple(found)
