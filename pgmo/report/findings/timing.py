"""Where a trace spends its time, as far as requests for memory tell."""

from dataclasses import dataclass

import numpy as np

from pgmo.profiler.trace import Event, Trace
from pgmo.report.blocks.origins import By, names_of_tags
from pgmo.report.findings.attribution import rank


@dataclass(frozen=True)
class Duration:
    """Time from the requests of one origin to whatever the allocator was asked next.

    Args:
        name: the operator, module, phase or file.
        requests: that it made.
        microseconds: in all.

    Example:
        >>> Duration("aten.mm", 4, 120).microseconds
        120
    """

    name: str
    requests: int
    microseconds: int


def time_by(trace: Trace, by: By = "op", top: int = 10) -> tuple[Duration, ...]:
    """The origins after whose requests the most time passes, the longest first.

    It is the time of the thread that launches the work: on a GPU the work itself may run later.
    An operator that asks for no memory is counted with the one before it.

    Args:
        trace: the events; without times in it there is nothing to tell.
        by: "op", "module", "phase" or "file".
        top: how many.

    Example:
        >>> from pgmo.profiler.tag import Tag
        >>> trace = Trace.from_columns(
        ...     kind=[0, 1, 0], address=[8, 8, 8], size=[4, 4, 4], tag=[0, -1, 0],
        ...     time=[0, 5, 9], tags=(Tag("", "aten.mm", ""),),
        ... )
        >>> time_by(trace)
        (Duration(name='aten.mm', requests=2, microseconds=9),)
    """
    seen = np.arange(len(trace)) >= trace.before
    rows = np.flatnonzero(seen & (trace.kind == Event.ALLOC))
    if not rows.size or not trace.time.any():
        return ()
    until = np.append(trace.time[rows[1:]], trace.time[-1])
    passed = np.maximum(until - trace.time[rows], 0)
    names = names_of_tags(trace.tags, trace.tag[rows], by)
    ranked = rank((name, time, 1) for name, time in zip(names, passed.tolist(), strict=True))
    return tuple(Duration(one.name, one.blocks, one.size) for one in ranked[:top])
