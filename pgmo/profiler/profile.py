"""The allocations of one iteration, as columns of numbers."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgmo.columns import as_column, check_columns
from pgmo.display import NotebookFrame, show_report
from pgmo.errors import ProfileError
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Trace
from pgmo.units import format_bytes

NEVER = -1
"""`end` of a persistent block, which no recorded iteration frees, or which outlives two."""

MAX_SIZE = 2**48
"""Largest accepted block size in bytes: 256 TiB. Above it: ProfileError."""

MAX_TICKS = 2**27
"""Largest accepted number of requests in an iteration. Above it: ProfileError."""

CPU_ALIGNMENT = 64
"""Alignment of blocks in CPU memory, in bytes."""

CUDA_ALIGNMENT = 512
"""Alignment of blocks in the memory of a CUDA device, in bytes."""

COLUMNS: Mapping[str, np.dtype[Any]] = {
    "size": np.dtype(np.int64),
    "start": np.dtype(np.int64),
    "end": np.dtype(np.int64),
    "stream": np.dtype(np.uint64),
    "thread": np.dtype(np.uint32),
    "tag": np.dtype(np.int32),
    "ordinal": np.dtype(np.int64),
    "varying": np.dtype(np.bool_),
    "shared": np.dtype(np.bool_),
    "address": np.dtype(np.int64),
}
"""Columns of a profile and their types. The columns are also members of a `.pgmoprof` file."""


@dataclass(frozen=True)
class ProfileMeta:
    """Description of a profile's origin. `Profile.alignment` depends on `device`."""

    framework: str = ""
    framework_version: str = ""
    pgmo_version: str = ""
    device: str = ""
    model: str = ""
    date: str = ""
    notes: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """Blocks of one iteration, one row per block; all columns have shape (n,) and are read-only.

    Time is counted in ticks: a block requested by request `i` and freed before request `j` lives
    `[i, j)`. A circular iteration has `ticks` requests, and an end beyond `ticks` lies in the next
    iteration. Source: the lifetimes of Sekiyama et al. 2018, section 3, made circular.

         0                       ticks                    2*ticks
         |--[==== inside ====)-----|------------------------|
         |-------------[===== wrapping ====)----------------|
         |--[================= doubly live =====)-----------|   ends after its next request
         |--------[============== persistent ===============|=== ... end = NEVER

    Args:
        size: bytes requested, above 0; for a `varying` row the largest recorded size.
        start: tick of the request.
        end: first tick at which the block is gone, or `NEVER`.
        stream: the stream that the block belongs to.
        thread: small number of the requesting thread, 0 = first seen.
        tag: index into `tags`, -1 for none.
        ordinal: number of the request in its iteration; equals `start` in a recording.
        varying: whether the size differs between iterations of one structure.
        shared: whether several streams use the block. A stream may use the block after its `end`.
            So, like a persistent block, a shared block gets no slot and is part of no load.
        address: address that the framework's allocator chose, 0 if unknown.
        ticks: requests per iteration, the period.
        circular: whether the iteration repeats.
        steady: whether two recorded iterations issued the same requests, except for `varying`
            sizes.
        tags: the distinct tags.
        meta: origin of the profile.
        trace: the whole trace from which the iteration was taken; None if unknown.
        order: synchronization between the iteration's streams; None if unknown.

    Raises:
        ProfileError: when the columns contradict each other.

    Example:
        >>> profile = Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=2)
        >>> profile.wrap.tolist(), profile.max_load()
        ([False, True], 96)
    """

    size: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    stream: NDArray[np.uint64]
    thread: NDArray[np.uint32]
    tag: NDArray[np.int32]
    ordinal: NDArray[np.int64]
    varying: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    address: NDArray[np.int64]
    ticks: int
    circular: bool
    steady: bool
    tags: tuple[Tag, ...]
    meta: ProfileMeta
    trace: Trace | None = None
    order: Order | None = None

    def __post_init__(self) -> None:
        check_columns(self, COLUMNS, "block", ProfileError)
        _check(self)

    @classmethod
    def from_columns(
        cls,
        *,
        size: ArrayLike,
        start: ArrayLike,
        end: ArrayLike,
        ticks: int,
        stream: ArrayLike | None = None,
        thread: ArrayLike | None = None,
        tag: ArrayLike | None = None,
        ordinal: ArrayLike | None = None,
        varying: ArrayLike | None = None,
        shared: ArrayLike | None = None,
        address: ArrayLike | None = None,
        circular: bool = True,
        steady: bool = True,
        tags: tuple[Tag, ...] = (),
        meta: ProfileMeta | None = None,
        trace: Trace | None = None,
        order: Order | None = None,
    ) -> "Profile":
        """Make a profile from array-like columns. Omitted arguments get neutral defaults.

        The arguments are those of `Profile`.

        Raises:
            ProfileError: when the columns contradict each other.

        Example:
            >>> Profile.from_columns(size=[8], start=[0], end=[NEVER], ticks=1).persistent.tolist()
            [True]
        """
        given: dict[str, ArrayLike | None] = {
            "size": size,
            "start": start,
            "end": end,
            "stream": stream,
            "thread": thread,
            "tag": -np.ones(np.size(start), np.int32) if tag is None else tag,
            "ordinal": start if ordinal is None else ordinal,
            "varying": varying,
            "shared": shared,
            "address": address,
        }
        columns: dict[str, NDArray[Any]] = {
            name: np.zeros(np.size(start), COLUMNS[name]) if value is None else np.asarray(value)
            for name, value in given.items()
        }
        return cls(
            **columns,
            ticks=ticks,
            circular=circular,
            steady=steady,
            tags=tags,
            meta=meta or ProfileMeta(),
            trace=trace,
            order=order,
        )

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        shape = "steady" if self.steady else "not steady"
        shared = f"{int(self.shared.sum())} shared, " if self.shared.any() else ""
        return (
            f"Profile({len(self)} blocks, {self.ticks} ticks, "
            f"max load {format_bytes(self.max_load())}, {int(self.persistent.sum())} persistent, "
            f"{shared}{int(self.varying.sum())} varying, {shape})"
        )

    def show(self, plan: object = None, *, height: int = 900) -> NotebookFrame:
        """Show the full report in a notebook.

        Args:
            plan: a `Plan` of this profile; None makes a quick plan.
            height: height of the frame in pixels.

        Returns:
            The frame that the notebook displays.

        Raises:
            ProfileError: when the plan belongs to another profile.
        """
        return show_report(self, plan, height=height)

    @cached_property
    def persistent(self) -> NDArray[np.bool_]:
        """True for blocks that no recorded iteration frees, shape (n,)."""
        return np.equal(self.end, NEVER)

    @cached_property
    def wrap(self) -> NDArray[np.bool_]:
        """True for blocks that a later iteration frees, shape (n,)."""
        return np.greater(self.end, self.ticks)

    @cached_property
    def turns(self) -> NDArray[np.int64]:
        """Number of slots of each block, shape (n,): 0 for a persistent or shared block.

        A block that lives longer than `ticks` has 2 slots, any other block 1.
        """
        unplanned = self.persistent | self.shared
        return np.where(unplanned, 0, 1 + (self.end - self.start > self.ticks)).astype(np.int64)

    @property
    def is_moment(self) -> bool:
        """Return whether the profile has a trace, but this trace shows only one moment."""
        return self.trace is not None and not self.trace.has_history

    @property
    def alignment(self) -> int:
        """Alignment of the device's blocks in bytes: 512 on CUDA devices, else 64."""
        return CUDA_ALIGNMENT if self.meta.device.startswith("cuda") else CPU_ALIGNMENT

    def load_curve(self, alignment: int = 1) -> NDArray[np.int64]:
        """Return the live bytes of the planned blocks at each tick of the steady state.

        If a block lives longer than `ticks`, two of its copies may be alive at once; then
        both count. Persistent blocks and blocks shared between streams do not count.

        Args:
            alignment: alignment in bytes, to which sizes are rounded up.

        Returns:
            Bytes, shape (ticks,).

        Example:
            >>> profile = Profile.from_columns(size=[4, 2], start=[0, 1], end=[1, 4], ticks=2)
            >>> profile.load_curve().tolist()
            [6, 4]
        """
        size = -(-self.size // alignment) * alignment
        low, high = self.start, self.end
        double = self.turns == 2
        always = int(size[double].sum())  # One of the two copies is always alive.
        high = np.where(double, high - self.ticks, high)
        planned = self.turns > 0
        size, low, high = size[planned], low[planned], high[planned]
        change = np.zeros(self.ticks + 1, np.int64)
        np.add.at(change, low, size)
        np.add.at(change, np.minimum(high, self.ticks), -size)
        wrapped = high > self.ticks
        change[0] += size[wrapped].sum()
        np.add.at(change, high[wrapped] - self.ticks, -size[wrapped])
        return always + np.cumsum(change[:-1])

    def max_load(self, alignment: int = 1) -> int:
        """Return the peak of `load_curve` in bytes, a lower bound on the arena's size.

        Args:
            alignment: alignment in bytes, to which sizes are rounded up.

        Example:
            >>> Profile.from_columns(size=[40], start=[0], end=[1], ticks=1).max_load(alignment=64)
            64
        """
        return int(self.load_curve(alignment).max(initial=0))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the data that replay compares: sizes, streams, varying, ticks; hexadecimal."""
        digest = hashlib.sha256(f"pgmo {self.ticks} {len(self)}".encode())
        for column in (self.size, self.stream, self.varying):
            digest.update(column.data if column.size else b"")
        return digest.hexdigest()

    def widened(self, size: ArrayLike) -> "Profile":
        """Return a copy with the larger of both sizes in each row. Rows that grow become `varying`.

        Source: the re-optimisation of Sekiyama et al. 2018.

        Args:
            size: bytes of the same requests, shape (n,).

        Raises:
            ProfileError: when `size` has another length.

        Example:
            >>> profile = Profile.from_columns(size=[4, 4], start=[0, 1], end=[1, 2], ticks=2)
            >>> profile.widened([4, 8]).varying.tolist()
            [False, True]
        """
        wide = as_column("size", size, COLUMNS["size"], ProfileError)
        if len(wide) != len(self):
            raise ProfileError(f"{len(wide)} sizes for {len(self)} blocks; give one for each row")
        return replace(
            self, size=np.maximum(self.size, wide), varying=self.varying | (wide > self.size)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.pgmoprof` file.

        Args:
            path: file to write.

        Raises:
            FileError: when the file cannot be written, or could not be read back.
        """
        from pgmo.profiler.profile_file import write_profile

        write_profile(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Profile":
        """Read a `.pgmoprof` file.

        Args:
            path: file to read.

        Raises:
            FileError: when the file cannot be read, or is truncated, altered, inconsistent or of
                another version.
        """
        from pgmo.profiler.profile_file import read_profile

        return read_profile(path)


def _check(profile: Profile) -> None:
    n, ticks = len(profile.size), profile.ticks
    if not isinstance(ticks, int) or not 0 <= ticks <= MAX_TICKS:
        raise ProfileError(f"ticks is {ticks!r}; it must be a whole number from 0 to {MAX_TICKS}")
    size, start, end = profile.size, profile.start, profile.end
    _need((size > 0) & (size <= MAX_SIZE), "size", size, f"above 0 and up to {MAX_SIZE}")
    _need((start >= 0) & (start < ticks), "start", start, f"from 0 to below ticks = {ticks}")
    never = end == NEVER
    _need(never | (end > start), "end", end, "above its start, or -1 for persistent", start)
    span = 2 * ticks if profile.circular else ticks - start
    far = f"at most {'start + 2 * ticks' if profile.circular else 'ticks'} with ticks = {ticks}"
    _need(never | (end <= start + span), "end", end, far, start)
    _need(profile.address >= 0, "address", profile.address, "0 or above")
    tag, ordinal = profile.tag, profile.ordinal
    _need(
        (ordinal >= 0) & (ordinal < ticks), "ordinal", ordinal, f"from 0 to below ticks = {ticks}"
    )
    _need(
        (tag >= -1) & (tag < len(profile.tags)), "tag", tag, f"from -1 to below {len(profile.tags)}"
    )
    if profile.order is not None and not profile.order.fits(n, ticks):
        raise ProfileError(
            f"the order refers to blocks or ticks outside the {n} blocks and {ticks} ticks"
        )
    if size.sum(dtype=np.float64) >= 2**61:
        raise ProfileError(
            f"the sizes of {n} blocks add up to 2**61 bytes or more; check the unit of the sizes"
        )


def _need(
    good: NDArray[np.bool_],
    name: str,
    column: NDArray[Any],
    wanted: str,
    start: NDArray[np.int64] | None = None,
) -> None:
    if good.all():
        return
    bad = np.flatnonzero(~good)
    row = int(bad[0])
    of = "" if start is None else f" (start {start[row]})"
    more = f"; {len(bad) - 1} more rows are out of range" if len(bad) > 1 else ""
    raise ProfileError(f"row {row}: {name} is {column[row]}{of}, must be {wanted}{more}")
