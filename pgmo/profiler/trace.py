"""Trace of the events of one device's allocator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgmo.columns import check_columns
from pgmo.errors import ProfileError
from pgmo.profiler.tag import Tag

if TYPE_CHECKING:
    from pgmo.profiler.trace_blocks import TraceBlocks


class Event(IntEnum):
    """Kind of an event. All names except `MARK` come from PyTorch's memory history.

    `FREE_REQUESTED` is a free by the program. `FREE_COMPLETED` follows when no other stream uses
    the block: from then on, the block's memory is reusable. `MARK` is the beginning of an
    iteration.
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
"""Largest accepted size of a block or segment in bytes: 256 TiB, more than any device has."""

MOST_ADDRESS = 2**62
"""Largest accepted address and time; sums of two fit in 64 bits. All sizes together are smaller."""

MOST_DEVICE = 2**15
"""Largest accepted device number."""


class MarkedBy(StrEnum):
    """Source of the marks at which iterations begin."""

    STEPS = "steps"
    """The program's annotations of optimizer or profiler steps, or its calls that mark them."""

    PERIOD = "period"
    """A guess: the period with which requests repeat."""


COLUMNS: Mapping[str, np.dtype[Any]] = {
    "kind": np.dtype(np.int8),
    "address": np.dtype(np.int64),
    "size": np.dtype(np.int64),
    "stream": np.dtype(np.uint64),
    "tag": np.dtype(np.int32),
    "time": np.dtype(np.int64),
}
"""Columns of a trace and their types."""


@dataclass(frozen=True)
class PrivateSegment:
    """Reserved address range of a private pool (CUDA graphs or `MemPool`). Sizes are in bytes."""

    pool: tuple[int, int]
    address: int
    size: int


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Events of one device in order, one row each; columns have shape (m,) and are read-only.

    The first `before` rows are not recorded events: they rebuild the state at the beginning of the
    trace, segments first, then blocks.

        |  before rows   |                 seen                          |
        | SEGMENT_ALLOC  | ALLOC  ALLOC  FREE_REQUESTED  MARK  ALLOC ... |
        | ... ALLOC ...  |                                               |

    Args:
        kind: an `Event`.
        address: address of the block or segment; 0 if unknown or without meaning. A free ends the
            block that was last allocated at its address and is still alive.
        size: bytes requested for a block, or reserved from the driver for a segment.
        stream: the stream.
        tag: index into `tags`, -1 for none.
        time: microseconds since the first recorded event; 0 if unknown.
        before: number of rows that rebuild the initial state.
        device: number of the device.
        settings: the allocator's settings by name, as text ("expandable_segments": "True").
        tags: the distinct origins.
        marked_by: source of the `MARK` rows.
        private: segments of private pools at the end of the trace.

    Raises:
        ProfileError: when the columns contradict each other.
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
    private: tuple[PrivateSegment, ...] = ()

    def __post_init__(self) -> None:
        check_columns(self, COLUMNS, "event", ProfileError)
        _need((self.kind >= 0) & (self.kind <= max(Event)), "kind", self.kind, "an Event")
        check_ranges(self.address, self.size, self.time)
        known = (self.tag >= -1) & (self.tag < len(self.tags))
        _need(known, "tag", self.tag, f"from -1 to below {len(self.tags)}")
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
        private: tuple[PrivateSegment, ...] = (),
    ) -> "Trace":
        """Make a trace from array-like columns; omitted arguments get neutral defaults."""
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
            private=private,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def __repr__(self) -> str:
        return (
            f"Trace({len(self) - self.before} events, {self.requests} requests, device "
            f"{self.device}, {self.iterations} marks)"
        )

    @cached_property
    def requests(self) -> int:
        """Number of recorded requests."""
        return int((self.kind[self.before :] == Event.ALLOC).sum())

    @cached_property
    def iterations(self) -> int:
        """Number of iterations that begin in the trace, each at a mark."""
        return int((self.kind == Event.MARK).sum())

    @cached_property
    def blocks(self) -> "TraceBlocks":
        """Blocks of the trace, with the rows at which they are freed."""
        from pgmo.profiler.trace_blocks import pair_blocks

        return pair_blocks(self)

    @cached_property
    def has_history(self) -> bool:
        """Return whether requests, frees or failures were recorded, not only a moment's state."""
        own = (Event.ALLOC, Event.FREE_REQUESTED, Event.FREE_COMPLETED, Event.OOM)
        return bool(np.isin(self.kind[self.before :], own).any())


def check_ranges(
    address: NDArray[np.int64], size: NDArray[np.int64], time: NDArray[np.int64]
) -> None:
    """Raise ProfileError if a number is impossible. The message names its row."""
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
