"""Requests that could not be served: what a trace says about running out of memory."""

from dataclasses import dataclass

import numpy as np

from pgmo.profiler.trace import Event, Trace
from pgmo.report.blocks.history import History, follow
from pgmo.report.blocks.origins import describe
from pgmo.report.findings.fragmentation import reserved_curve


@dataclass(frozen=True)
class Failure:
    """A request for which there was no memory; sizes in bytes.

    Args:
        row: of the trace.
        size: requested; 0 where the trace does not tell.
        live: in blocks at that moment.
        reserved: by the allocator at that moment; 0 where the trace has no segments.
        origin: who asked, in one line.
    """

    row: int
    size: int
    live: int
    reserved: int
    origin: str

    @property
    def unused(self) -> int:
        """Bytes that were reserved and in no block: at most what fragmentation cost."""
        return max(0, self.reserved - self.live)


def find_failures(trace: Trace, history: History | None = None) -> tuple[Failure, ...]:
    """The requests of a trace that ran out of memory, in their order.

    Args:
        trace: the events.
        history: of the trace, if it is at hand.
    """
    rows = np.flatnonzero(trace.kind == Event.OOM)
    if not rows.size:
        return ()
    live, reserved = (history or follow(trace)).live(), reserved_curve(trace)
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
