"""Rows between the requests of an iteration: frees, recorded events and waits.

requests     0     1        2     3          ticks
rows            F0    E  W    W         D    before request 1, 2, 3: free 0, event, wait, ...

A program orders its streams by events. A row before request `t` has tick `t`. The order of rows
with equal ticks shows whether a block was freed before or after an event was recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import check_columns
from pgmo.errors import ProfileError

FREE, RECORD, WAIT, STREAM_DONE, EVENT_DONE, DEVICE_DONE = 1, 4, 5, 6, 7, 8
"""Values of `kind`. A block is freed; an event is recorded on a stream; a stream waits for an
event; the program itself waits for a stream, an event or all streams."""

LOST = 9
"""Kind of a gap in a recording. A later row that waits for an event from before the gap has an
unknown target."""

KINDS = (FREE, RECORD, WAIT, STREAM_DONE, EVENT_DONE, DEVICE_DONE)

UNKNOWN = -1
"""`target` of a row that has no target, or whose target was not recorded."""

MOST_BACK = 4
"""Maximum number of iterations between a row and its target."""

COLUMNS: Mapping[str, np.dtype[Any]] = {
    "tick": np.dtype(np.int64),
    "kind": np.dtype(np.uint8),
    "stream": np.dtype(np.uint64),
    "target": np.dtype(np.int64),
    "back": np.dtype(np.int64),
}
"""Columns of an order and their types. The columns are also the members of an order's file."""


@dataclass(frozen=True, eq=False)
class Order:
    """Rows between requests, in their recorded order; columns of shape (m,), read-only.

    Args:
        tick: number of the next request; `ticks` at the iteration's end.
        kind: one of `KINDS`.
        stream: the stream that records the event, waits, or is waited for; else 0.
        target: for a free, the row of the block in the profile; for a wait, the row of this order
            that recorded the event; else `UNKNOWN`.
        back: number of iterations from the target to this row; 0 within one iteration.

    Raises:
        ProfileError: when the columns contradict each other.
    """

    tick: NDArray[np.int64]
    kind: NDArray[np.uint8]
    stream: NDArray[np.uint64]
    target: NDArray[np.int64]
    back: NDArray[np.int64]

    def __post_init__(self) -> None:
        check_columns(self, COLUMNS, "row of the order", ProfileError)
        if len(self.tick) and (self.tick[0] < 0 or (np.diff(self.tick) < 0).any()):
            raise ProfileError("the ticks of an order decrease or are negative; record again")
        unknown = self.kind[~np.isin(self.kind, KINDS)]
        if unknown.size:
            raise ProfileError(f"a row of the order has kind {unknown[0]}, must be among {KINDS}")
        if (self.back < 0).any() or (self.back > MOST_BACK).any():
            raise ProfileError(
                f"a target of the order is not 0 to {MOST_BACK} iterations earlier; record again"
            )
        waits = np.isin(self.kind, (WAIT, EVENT_DONE)) & (self.target != UNKNOWN)
        target, own = self.target[waits], np.flatnonzero(waits)
        among = (target >= 0) & (target < len(self))
        if not among.all() or not (self.kind[target] == RECORD).all():
            raise ProfileError(
                "a row of the order waits for a row that is missing or no event; record again"
            )
        if ((self.back[waits] == 0) & (target > own)).any():
            raise ProfileError("a row of the order waits for a later event; record again")

    def __len__(self) -> int:
        return len(self.tick)

    def moved(self, rows: NDArray[np.int64], ticks: NDArray[np.int64]) -> "Order":
        """Return this order renumbered for a larger set of requests.

        Args:
            rows: new row of each block, shape (n,).
            ticks: new number of each request and of the iteration's end, shape (ticks + 1,).
        """
        freed = self.kind == FREE
        target = self.target.copy()
        target[freed] = rows[target[freed]]
        return replace(self, tick=ticks[self.tick], target=target)

    def fits(self, blocks: int, ticks: int) -> bool:
        """Return whether the order refers only to blocks below `blocks`, ticks up to `ticks`."""
        freed = self.target[self.kind == FREE]
        return bool((self.tick <= ticks).all() and ((freed >= 0) & (freed < blocks)).all())
