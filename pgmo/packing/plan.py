"""Plan of an iteration: the offsets of its blocks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import check_columns
from pgmo.display import NotebookFrame, show_report
from pgmo.errors import PlanError
from pgmo.packing.solving.result import Incumbent
from pgmo.profiler.ordering.order import Order
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile, ProfileMeta

UNPLANNED = -1
"""`offset` of a block without a slot, and `alternate` of a block without a second slot."""

COLUMNS: Mapping[str, np.dtype[Any]] = {
    "size": np.dtype(np.int64),
    "start": np.dtype(np.int64),
    "end": np.dtype(np.int64),
    "stream": np.dtype(np.uint64),
    "varying": np.dtype(np.bool_),
    "shared": np.dtype(np.bool_),
    "offset": np.dtype(np.int64),
    "alternate": np.dtype(np.int64),
    "shorter": np.dtype(np.int64),
}
"""Columns of a plan and their types. The columns are also members of a `.pgmoplan` file."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Plan with one row for each row of the profile, in order; columns have shape (n,), read-only.

    Args:
        size: bytes, as in the profile.
        start: tick of the request.
        end: first tick at which the block is gone, -1 for a persistent block.
        stream: the stream. Streams use disjoint ranges of the arena.
        varying: whether the size differs between iterations of one structure.
        shared: whether the block is used on several streams.
        offset: offset in the arena in bytes, `UNPLANNED` for persistent and shared blocks.
        alternate: offset of the second slot of a block that lives longer than `ticks`, else -1.
            Iterations use the two slots alternately.
        arena: size of the arena in bytes.
        max_load: largest sum of live aligned sizes at one tick, a lower bound on any arena.
            Persistent and shared blocks do not count.
        optimal: whether `arena` equals `bound`. Then no plan that keeps streams apart is smaller.
        solver: the packer or solver that found the plan; several names are joined by "+".
        alignment: bytes; offsets are multiples of the alignment.
        ticks: requests per iteration.
        circular: whether the iteration repeats.
        fingerprint: fingerprint of the profile.
        seconds: duration of planning in seconds.
        meta: metadata of the profile.
        opening: plan of the program's first iteration, which allocates optimizer state. Blocks of
            the opening that stay alive are persistent.
        others: plans of the same program for iterations with other sequences of requests, such as
            evaluation. Neither these plans nor the opening contain plans.
        bound: proved lower bound in bytes on plans that keep streams apart. By default `arena` if
            `optimal`, else `max_load`.
        trace: the first packing, then each smaller packing and each higher bound, in order. Not
            saved in files.
        interrupted: whether Ctrl-C ended the search early. Not saved in files.
        resident: bytes of the arena in device memory, by default all. Slots from this offset on are
            spilled: they are in unified memory on the host.
        shorter: bytes of each request in a shorter iteration, 0 if unknown. The two sizes of each
            request show which requests change their sizes together.
        order: synchronization between the iteration's streams; None if unknown.

    Raises:
        PlanError: when columns differ in length or hold non-integers, when `order` does not fit
            them, or when a plan inside contains plans. `pgmo.packing.validator.validate` checks
            overlaps.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> from pgmo.profiler.profile import Profile
        >>> plan(Profile.from_columns(size=[64, 64], start=[0, 1], end=[1, 2], ticks=2))
        Plan(2 of 2 blocks in 64 B, max load 64 B, gap 0.00 %, optimal, by best-fit)
    """

    size: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    stream: NDArray[np.uint64]
    varying: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    offset: NDArray[np.int64]
    alternate: NDArray[np.int64]
    arena: int
    max_load: int
    optimal: bool
    solver: str
    alignment: int
    ticks: int
    circular: bool
    fingerprint: str
    seconds: float
    meta: "ProfileMeta"
    opening: "Plan | None" = None
    others: "tuple[Plan, ...]" = ()
    bound: int = -1
    trace: tuple[Incumbent, ...] = ()
    interrupted: bool = False
    resident: int = -1
    shorter: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    order: Order | None = None

    def __post_init__(self) -> None:
        if not len(self.shorter):
            object.__setattr__(self, "shorter", np.zeros(len(self.size), np.int64))
        check_columns(self, COLUMNS, "block", PlanError)
        if self.bound < 0:
            object.__setattr__(self, "bound", self.arena if self.optimal else self.max_load)
        if not 0 <= self.resident < self.arena:
            object.__setattr__(self, "resident", self.arena)
        object.__setattr__(self, "others", tuple(self.others))
        if self.order is not None and not self.order.fits(len(self.size), self.ticks):
            raise PlanError(
                f"the order refers to blocks or ticks outside the plan's {len(self.size)} blocks "
                f"and {self.ticks} ticks"
            )
        for inner in self.inner:
            if not isinstance(inner, Plan):
                raise PlanError(f"{inner!r} is given as a plan of the same program; pass a Plan")
            if inner.inner:
                raise PlanError(
                    "a plan of the same program contains plans; pass all of them to the outer plan"
                )

    @classmethod
    def of(cls, profile: "Profile", **figures: Any) -> "Plan":
        """Make a plan of a profile. Columns and other properties of the profile are the defaults.

        Args:
            profile: the profile.
            figures: further arguments of `Plan`.
        """
        names = (*COLUMNS, "ticks", "circular", "fingerprint", "meta", "order")
        own = {name: getattr(profile, name) for name in names if hasattr(profile, name)}
        return cls(**{**own, **figures})

    def profile(self) -> "Profile":
        """Return a profile of the plan's blocks, without tags, threads, addresses and trace.

        Raises:
            ProfileError: when the plan's blocks are invalid for a profile.

        Example:
            >>> from pgmo.packing.planner import plan
            >>> from pgmo.profiler.profile import Profile
            >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
            >>> plan(profile).profile().fingerprint == profile.fingerprint
            True
        """
        from pgmo.profiler.profile import Profile

        columns = ("size", "start", "end", "stream", "varying", "shared")
        return Profile.from_columns(
            **{name: getattr(self, name) for name in columns},
            ticks=self.ticks,
            circular=self.circular,
            meta=self.meta,
            order=self.order,
        )

    @property
    def gap(self) -> float:
        """Relative excess of the arena over the max load: 0.01 is one per cent; 0.0 when empty."""
        return self.arena / self.max_load - 1 if self.max_load else 0.0

    @cached_property
    def ordered_load(self) -> int | None:
        """Maximum of planned bytes that may be live at once in the stream order; None if unknown.

        No plan whose streams exchange memory without additional waits can be smaller. See
        `pgmo.packing.ordered_load`.
        """
        from pgmo.packing.ordered_load import ordered_load

        return ordered_load(self, self.alignment)

    @property
    def spilled(self) -> int:
        """Bytes of the arena in unified memory on the host; 0 if no block is spilled.

        Example:
            >>> from pgmo.packing.planner import plan
            >>> from pgmo.profiler.profile import Profile
            >>> profile = Profile.from_columns(size=[512, 512], start=[0, 1], end=[2, 2], ticks=2)
            >>> plan(profile, alignment=512, budget=512).spilled
            512
        """
        return self.arena - self.resident

    @property
    def inner(self) -> "tuple[Plan, ...]":
        """Plans inside this plan: the plans of other structures, then the opening."""
        return self.others if self.opening is None else (*self.others, self.opening)

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        placed = int(np.count_nonzero(self.offset != UNPLANNED))
        return (
            f"Plan({placed} of {len(self)} blocks in {format_bytes(self.arena)}, max load "
            f"{format_bytes(self.max_load)}{self._spilled_text()}, gap {100 * self.gap:.2f} %, "
            f"{'optimal, ' if self.optimal else ''}by {self.solver}{self._inner_plans_text()})"
        )

    def show(self, *, height: int = 900) -> NotebookFrame:
        """Show the full report in a notebook. `Profile.show(plan)` also shows origins of blocks.

        Args:
            height: height of the frame in pixels.
        """
        return show_report(self.profile(), self, height=height)

    def _spilled_text(self) -> str:
        return f", {format_bytes(self.spilled)} of it spilled" if self.spilled else ""

    def _inner_plans_text(self) -> str:
        others = f"; {len(self.others)} more inside" if self.others else ""
        return others + ("" if self.opening is None else "; with its opening")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.pgmoplan` file with this plan and the plans inside it.

        Args:
            path: file to write.

        Raises:
            FileError: when the file cannot be written, or a plan is invalid.
        """
        from pgmo.packing.plan_file import write_plan

        write_plan(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Plan":
        """Read a `.pgmoplan` file and validate each plan in it.

        Args:
            path: file to read.

        Raises:
            FileError: when the file cannot be read, or is truncated, altered or of another version,
                or a plan in it is invalid.
        """
        from pgmo.packing.plan_file import read_plan

        return read_plan(path)
