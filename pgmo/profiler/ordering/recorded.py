"""From a recording to the order of one iteration.

recording    | ... E5 ... | F12  W5  E6  F20 | ...      numbers since it began
order                      F     W   E   F              rows and blocks of the iteration, and of how
                           back 1, 1     0              many iterations before
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
"""A row as it was recorded. Its tick is a request's number since recording began, and so is the
target of a free; that of an event is the event's number: how many had been recorded before."""


def numbered(events: NDArray[np.void], served: NDArray[np.int64]) -> NDArray[np.void] | None:
    """All rows of a recording, in order; None where nothing orders streams.

    Args:
        events: of dtype `pgmo.profiler.recording.EVENT`, shape (events,).
        served: requests served up to and including each event.
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
    latest: dict[int, int] = {}  # the number that an event was recorded as last
    count = 0
    about = np.flatnonzero(np.isin(rows["kind"], (RECORD, WAIT, EVENT_DONE, LOST)))
    for row, event in zip(about.tolist(), events["bytes"][mine[about]].tolist(), strict=True):
        if rows["kind"][row] == LOST:
            latest.clear()
        elif rows["kind"][row] == RECORD:
            latest[event] = count
            count += 1
        rows["target"][row] = latest.get(event, UNKNOWN)
    heard: NDArray[np.void] = rows[rows["kind"] != LOST]
    return heard


def split_rows(
    rows: NDArray[np.void] | None, edges: NDArray[np.int64]
) -> list[NDArray[np.void] | None]:
    """The rows of each iteration: what comes before its first request is the one's before it.

    Args:
        rows: from `numbered`.
        edges: numbers of the first requests, and the one after the last, shape (iterations + 1,).
    """
    if rows is None:
        return [None] * (len(edges) - 1)
    inner = np.searchsorted(rows["tick"], edges[1:], side="right").tolist()
    return [rows[low:high] for low, high in pairwise([0, *inner])]


def order_of(members: Sequence["Iteration"], reference: int) -> Order | None:
    """The order of one iteration among those of its structure.

    What was freed or recorded before these began, or in an iteration that has other rows, is not
    known.

    Args:
        members: iterations of one structure, in order.
        reference: index among them.
    """
    one = members[reference]
    mine = one.rows
    if mine is None or len(np.unique(one.stream)) < 2:
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
    # Frees have numbers of requests there, of which there may be more than rows.
    waited = waits & (target != UNKNOWN)
    target[waited] = place[target[waited]]
    return Order(
        tick=mine["tick"][known] - one.first,
        kind=mine["kind"][known],
        stream=mine["stream"][known],
        target=target[known],
        back=back[known],
    )
