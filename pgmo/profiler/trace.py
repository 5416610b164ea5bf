"""Everything that one device's allocator did over a stretch of time: what a snapshot holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgmo.columns import as_column
from pgmo.errors import ProfileError
from pgmo.profiler.tag import Tag


class Event(IntEnum):
    """What happened. The names are those of PyTorch's memory history, but for `MARK`.

    A block that is used on other streams stays unusable from `FREE_REQUESTED`, when the program
    lets go of it, to `FREE_COMPLETED`. `MARK` is the beginning of an iteration.
    """

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    OOM = 7
    MARK = 8


MOST_SIZE = 2**48
"""Bytes of a block or a segment beyond which a size is a mistake (256 TiB)."""

MOST_ADDRESS = 2**62
"""The largest address, time, and sum of all sizes: what is added to them is a number, still."""

MOST_DEVICE = 2**15
"""The largest number of a device."""


class MarkedBy(StrEnum):
    """Who tells where iterations begin."""

    STEPS = "steps"
    """The program: annotations of optimizer or profiler steps, or calls that mark them."""

    METADATA = "metadata"
    """A number in the program's own metadata that goes up by one: an iteration's, or an epoch's."""

    PERIOD = "period"
    """Nobody; it was guessed, as the requests repeat."""


COLUMNS: Mapping[str, np.dtype[Any]] = {
    "kind": np.dtype(np.int8),
    "address": np.dtype(np.int64),
    "size": np.dtype(np.int64),
    "stream": np.dtype(np.uint64),
    "tag": np.dtype(np.int32),
    "time": np.dtype(np.int64),
}
"""The columns of a trace and their types."""


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The events of one device in their order, one row each; columns have shape (m,), read-only.

    A trace begins in the middle of a program: its first `before` rows are not events that were
    seen, but rebuild what was there at the beginning, segments first, then blocks.

        |  before rows   |                 seen                          |
        | SEGMENT_ALLOC  | ALLOC  ALLOC  FREE_REQUESTED  MARK  ALLOC ... |
        | ... ALLOC ...  |                                               |

    Args:
        kind: an `Event`.
        address: where the block or segment is; 0 where that means nothing or is not known. A free
            ends the block that was allocated last at its address and is not freed yet.
        size: bytes: those requested of a block, those taken from the driver of a segment.
        stream: the stream.
        tag: index into `tags`, -1 for none.
        time: microseconds since the first event that was seen; 0 where it is not known.
        before: rows that rebuild the beginning.
        device: number of the device.
        settings: of the allocator, by name, as text ("expandable_segments": "True").
        tags: the distinct origins.
        marked_by: who tells where the `MARK` rows are.

    Raises:
        ProfileError: when the columns contradict each other.

    Example:
        >>> trace = Trace.from_columns(kind=[0, 1], address=[64, 64], size=[8, 8])
        >>> len(trace), trace.requests
        (2, 1)
    """

    kind: NDArray[np.int8]
    address: NDArray[np.int64]
    size: NDArray[np.int64]
    stream: NDArray[np.uint64]
    tag: NDArray[np.int32]
    time: NDArray[np.int64]
    before: int = 0
    device: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[Tag, ...] = ()
    marked_by: MarkedBy = MarkedBy.STEPS

    def __post_init__(self) -> None:
        for name, dtype in COLUMNS.items():
            column = as_column(name, getattr(self, name), dtype, ProfileError)
            object.__setattr__(self, name, column)
            if len(column) != len(self.kind):
                raise ProfileError(
                    f"column {name!r} has {len(column)} rows, 'kind' has {len(self.kind)}; give "
                    "one for each event"
                )
        self._need((self.kind >= 0) & (self.kind <= max(Event)), "kind", "an Event")
        check_ranges(self.address, self.size, self.time)
        self._need(
            (self.tag >= -1) & (self.tag < len(self.tags)),
            "tag",
            f"from -1 to below {len(self.tags)}",
        )
        if not 0 <= self.before <= len(self):
            raise ProfileError(f"before is {self.before}, must be from 0 to {len(self)} rows")
        if not 0 <= self.device <= MOST_DEVICE:
            raise ProfileError(f"device is {self.device}, must be from 0 to {MOST_DEVICE}")

    @classmethod
    def from_columns(
        cls,
        *,
        kind: ArrayLike,
        address: ArrayLike,
        size: ArrayLike,
        stream: ArrayLike | None = None,
        tag: ArrayLike | None = None,
        time: ArrayLike | None = None,
        before: int = 0,
        device: int = 0,
        settings: Mapping[str, str] | None = None,
        tags: tuple[Tag, ...] = (),
    ) -> "Trace":
        """Makes a trace from anything array-like; what is left out gets the plainest value.

        Raises:
            ProfileError: when the columns contradict each other.

        Example:
            >>> Trace.from_columns(kind=[0], address=[64], size=[8]).tag.tolist()
            [-1]
        """
        rows = np.size(np.asarray(kind))
        return cls(
            kind=np.asarray(kind),
            address=np.asarray(address),
            size=np.asarray(size),
            stream=np.zeros(rows, np.uint64) if stream is None else np.asarray(stream),
            tag=np.full(rows, -1, np.int32) if tag is None else np.asarray(tag),
            time=np.zeros(rows, np.int64) if time is None else np.asarray(time),
            before=before,
            device=device,
            settings=dict(settings or {}),
            tags=tags,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def __repr__(self) -> str:
        return (
            f"Trace({len(self) - self.before} events, {self.requests} requests, device "
            f"{self.device}, {int((self.kind == Event.MARK).sum())} marks)"
        )

    @cached_property
    def requests(self) -> int:
        """Number of requests that were seen."""
        return int((self.kind[self.before :] == Event.ALLOC).sum())

    @cached_property
    def has_history(self) -> bool:
        """Whether any request or free was seen; if not, the trace is of one moment alone.

        Example:
            >>> Trace.from_columns(kind=[0], address=[64], size=[8], before=1).has_history
            False
        """
        own = (Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED, Event.OOM)
        return bool(np.isin(self.kind[self.before :], own).any())

    def _need(self, good: NDArray[np.bool_], name: str, wanted: str) -> None:
        _need(good, name, getattr(self, name), wanted)


def check_ranges(
    address: NDArray[np.int64], size: NDArray[np.int64], time: NDArray[np.int64]
) -> None:
    """Refuses numbers that no allocator has, before anything is computed from them; shape (m,).

    Raises:
        ProfileError: naming the row.

    Example:
        >>> check_ranges(np.array([-64]), np.array([8]), np.array([0]))
        Traceback (most recent call last):
        ...
        pgmo.errors.ProfileError: row 0: address is -64, must be from 0 to 2**62
    """
    _need((size >= 0) & (size <= MOST_SIZE), "size", size, f"from 0 to {MOST_SIZE}")
    _need((address >= 0) & (address <= MOST_ADDRESS), "address", address, "from 0 to 2**62")
    _need((time >= 0) & (time <= MOST_ADDRESS), "time", time, "from 0 to 2**62")
    if size.sum(dtype=np.float64) >= MOST_ADDRESS:
        raise ProfileError(
            f"the sizes of {len(size)} events add up to 2**62 bytes or more; check their unit"
        )


def _need(good: NDArray[np.bool_], name: str, column: NDArray[Any], wanted: str) -> None:
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise ProfileError(f"row {row}: {name} is {column[row]}, must be {wanted}")
