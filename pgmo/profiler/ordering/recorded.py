"""Conversion of a recording to the order of frees, events and waits in one iteration.

recording    | ... E5 ... | F12  W5  E6  F20 | ...      numbers since recording began
order                      F     W   E   F              rows and blocks of the iteration, with the
                           back 1, 1     0              number of iterations back to the target

F is a free, E the record of an event, and W a wait for an event. The number names the request
whose block is freed, or the event.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.ordering.order import (
    EVENT_DONE,
    FREE,
    LOST,
    MOST_BACK,
    RECORD,
    UNKNOWN,
    WAIT,
    Order,
)

if TYPE_CHECKING:
    from pgmo.profiler.recording import Iteration

NUMBERED = np.dtype(
    [("tick", "i8"), ("kind", "u1"), ("stream", "u8"), ("target", "i8")],
)
"""Layout of a recorded row. The tick, and the target of a free, are request numbers since recording
began. The target of an event's record is the number of records before it; a wait has the target of
the record that it waits for."""


def numbered(events: NDArray[np.void], served: NDArray[np.int64]) -> NDArray[np.void] | None:
    """Return frees and stream events of a recording as `NUMBERED`; None without stream events.

    Args:
        events: events of dtype `pgmo.profiler.recording.EVENT`, shape (events,).
        served: number of requests served up to and including each event, shape (events,).
    """
    kind = events["kind"]
    if not (kind >= RECORD).any():
        return None
    mine = np.flatnonzero((kind == FREE) | (kind >= RECORD))
    rows = np.zeros(len(mine), NUMBERED)
    rows["tick"], rows["kind"] = served[mine], kind[mine]
    freed = rows["kind"] == FREE
    rows["stream"] = np.where(freed, 0, events["stream"][mine])
    rows["target"] = np.where(freed, events["block"][mine].astype(np.int64), UNKNOWN)
    latest: dict[int, int] = {}  # Number of each event's latest recording.
    count = 0
    about = np.flatnonzero(np.isin(rows["kind"], (RECORD, WAIT, EVENT_DONE, LOST)))
    for row, event in zip(about.tolist(), events["bytes"][mine[about]].tolist(), strict=True):
        if rows["kind"][row] == LOST:
            latest.clear()
        elif rows["kind"][row] == RECORD:
            latest[event] = count
            count += 1
        rows["target"][row] = latest.get(event, UNKNOWN)
    kept: NDArray[np.void] = rows[rows["kind"] != LOST]
    return kept


def split_rows(
    rows: NDArray[np.void] | None, edges: NDArray[np.int64]
) -> list[NDArray[np.void] | None]:
    """Split rows by iteration. Rows before a first request belong to the previous iteration.

    Args:
        rows: rows from `numbered`, or None, which gives None for each iteration.
        edges: number of each iteration's first request, and of the first request after the last
            iteration, shape (iterations + 1,).
    """
    if rows is None:
        return [None] * (len(edges) - 1)
    inner = np.searchsorted(rows["tick"], edges[1:], side="right").tolist()
    return [rows[low:high] for low, high in pairwise([0, *inner])]


def order_of(members: Sequence["Iteration"], reference: int) -> Order | None:
    """Return the order of one iteration, or None if it has no rows or fewer than two streams.

    A target is unknown if it lies before the members, more than `MOST_BACK` members back, or in a
    member with another number of requests (for a wait, also with another number of event records).
    Frees with an unknown target are left out.
    """
    one = members[reference]
    mine = one.rows
    if mine is None or not np.any(one.stream != one.stream[:1]):
        return None
    target = np.full(len(mine), UNKNOWN)
    back = np.zeros(len(mine), np.int64)
    own = np.flatnonzero(mine["kind"] == RECORD)
    waits = np.isin(mine["kind"], (WAIT, EVENT_DONE))
    for turns in range(min(MOST_BACK, reference) + 1):
        other = members[reference - turns]
        if len(other) != len(one) or other.rows is None:
            continue
        beyond = other.first + len(other)
        freed = (mine["kind"] == FREE) & (mine["target"] >= other.first)
        freed &= mine["target"] < beyond
        target[freed], back[freed] = mine["target"][freed] - other.first, turns
        theirs = other.rows["target"][other.rows["kind"] == RECORD].tolist()
        if len(theirs) != len(own):
            continue
        at = dict(zip(theirs, own.tolist(), strict=True))
        for row in np.flatnonzero(waits & (target == UNKNOWN)).tolist():
            found = at.get(int(mine["target"][row]), UNKNOWN)
            target[row], back[row] = found, turns if found != UNKNOWN else 0
    known = (mine["kind"] != FREE) | (target != UNKNOWN)
    place = np.cumsum(known) - 1
    # Only the targets of waits are rows of the order; targets of frees are numbers of requests.
    waited = waits & (target != UNKNOWN)
    target[waited] = place[target[waited]]
    return Order(
        tick=mine["tick"][known] - one.first,
        kind=mine["kind"][known],
        stream=mine["stream"][known],
        target=target[known],
        back=back[known],
    )
