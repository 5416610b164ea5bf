"""Where every block of an iteration goes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import as_column
from pgmo.display import NotebookFrame, show_report
from pgmo.errors import PlanError
from pgmo.packing.solving.result import Incumbent
from pgmo.profiler.ordering.order import Order
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile, ProfileMeta

UNPLANNED = -1
"""`offset` of a block without a slot, `alternate` of one without a second slot."""

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
"""The columns of a plan and their types; also the members of a `.pgmoplan` file."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """One row for each row of the profile, in its order; columns have shape (n,), read-only.

    Args:
        size: bytes, as in the profile.
        start: tick of the request.
        end: first tick at which the block is gone, -1 for a persistent block.
        stream: the stream; blocks of different streams have disjoint ranges of the arena.
        varying: whether recorded shapes disagree about the size.
        shared: whether the block is used on several streams.
        offset: place in the arena in bytes, `UNPLANNED` for persistent and for shared blocks.
        alternate: the second slot of a block that outlives a period, used in turn with the first
            one; else `UNPLANNED`.
        arena: bytes that the plan needs.
        max_load: the largest sum of live aligned sizes at one tick, of the blocks that are neither
            persistent nor shared: no plan can be smaller.
        optimal: whether no plan of this kind can be smaller: `arena` is the largest load with two
            whole slots counted for each block that outlives a period (with none of those, that
            is `max_load`), summed over streams.
        solver: the packer or solver that found it; one for each stream, joined by "+", where they
            differ.
        alignment: offsets are multiples of it, in bytes.
        ticks: requests per iteration.
        circular: whether the iteration repeats.
        fingerprint: of the profile.
        seconds: spent on planning.
        meta: of the profile.
        opening: the plan of the program's first iteration, in which optimizer state is born: its
            persistent rows are known before they come.
        others: plans of further structures of the same program: other sequence lengths,
            evaluation. These and the opening have no plans inside themselves.
        bound: bytes that no plan of this kind can be below, as far as it is proved; equal to
            `arena` when `optimal`. If left out, what `optimal` and `max_load` say.
        trace: the first plan, and each that was smaller or proved a higher bound, in order. Not
            kept in files.
        interrupted: whether Ctrl-C ended the search early. Not kept in files.
        resident: bytes of the arena that are device memory. Slots that lie above are spilled: they
            are in unified memory, which stays on the host. If left out, all of the arena.
        shorter: sizes of the same requests in an iteration that was shorter, in bytes, 0 where they
            are not known: both together tell which requests change their sizes together. If left
            out, nothing is known.
        order: of the profile: how the iteration orders its streams; None where that is not known.

    Raises:
        PlanError: when the columns differ in length or hold something else than whole numbers, or
            plans inside have plans inside. Whether blocks overlap is for
            `pgmo.packing.validator.validate` to say.

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
        for name, dtype in COLUMNS.items():
            given = as_column(name, getattr(self, name), dtype, PlanError)
            object.__setattr__(self, name, given)
            if len(given) != len(self.size):
                raise PlanError(
                    f"column {name!r} has {len(given)} rows, 'size' has {len(self.size)}; give one "
                    "entry for each block"
                )
        if self.bound < 0:
            object.__setattr__(self, "bound", self.arena if self.optimal else self.max_load)
        if not 0 <= self.resident < self.arena:
            object.__setattr__(self, "resident", self.arena)
        object.__setattr__(self, "others", tuple(self.others))
        if self.order is not None and not self.order.fits(len(self.size), self.ticks):
            raise PlanError(f"the order is one of more than {len(self.size)} blocks")
        for inner in self.inner:
            if not isinstance(inner, Plan):
                raise PlanError(f"{inner!r} is given as a plan of the same program; pass a Plan")
            if inner.inner:
                raise PlanError(
                    "a plan of the same program has such plans itself; pass all of them to one plan"
                )

    @classmethod
    def of(cls, profile: "Profile", **figures: Any) -> "Plan":
        """The plan of a profile, from which everything is taken that is not given.

        Example:
            >>> from pgmo.profiler.profile import Profile
            >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
            >>> offset, figures = np.zeros(1, np.int64), dict(arena=64, max_load=64, optimal=True)
            >>> given = dict(alternate=offset - 1, solver="", alignment=64, seconds=0.0, **figures)
            >>> len(Plan.of(profile, offset=offset, **given))
            1
        """
        names = (*COLUMNS, "ticks", "circular", "fingerprint", "meta", "order")
        own = {name: getattr(profile, name) for name in names if hasattr(profile, name)}
        return cls(**{**own, **figures})

    def profile(self) -> "Profile":
        """As much of the profile as a plan retains: sizes and lifetimes, without tags and threads.

        Raises:
            ProfileError: when the plan's blocks are none that a profile can have.

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
        """How far the arena is above the max load: 0.01 is one per cent; 0.0 when empty.

        Example:
            >>> from pgmo.packing.planner import plan
            >>> from pgmo.profiler.profile import Profile
            >>> plan(Profile.from_columns(size=[], start=[], end=[], ticks=0)).gap
            0.0
        """
        return self.arena / self.max_load - 1 if self.max_load else 0.0

    @cached_property
    def ordered_load(self) -> int | None:
        """The largest sum of bytes that may live at once, as the program orders its streams.

        No plan in which streams hand memory to each other without waits of their own can need less.
        None where it is not known how they are ordered. See `pgmo.packing.ordered_load`.

        Example:
            >>> from pgmo.packing.planner import plan
            >>> from pgmo.profiler.profile import Profile
            >>> plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)).ordered_load

        """
        from pgmo.packing.ordered_load import ordered_load

        return ordered_load(self, self.alignment)

    @property
    def spilled(self) -> int:
        """Bytes of the arena that are in unified memory, on the host; 0 without a budget.

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
        """The plans that this one brings along: the others, then the opening."""
        return self.others if self.opening is None else (*self.others, self.opening)

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        placed = int(np.count_nonzero(self.offset != UNPLANNED))
        return (
            f"Plan({placed} of {len(self)} blocks in {format_bytes(self.arena)}, max load "
            f"{format_bytes(self.max_load)}{self._outside()}, gap {100 * self.gap:.2f} %, "
            f"{'optimal, ' if self.optimal else ''}by {self.solver}{self._company()})"
        )

    def show(self, *, height: int = 900) -> NotebookFrame:
        """The whole report inside of a notebook; `Profile.show(plan)` has the blocks' origins, too.

        Args:
            height: in pixels.

        Example:
            >>> plan.show()  # doctest: +SKIP
        """
        return show_report(self.profile(), self, height=height)

    def _outside(self) -> str:
        return f", {format_bytes(self.spilled)} of it spilled" if self.spilled else ""

    def _company(self) -> str:
        others = f"; {len(self.others)} more inside" if self.others else ""
        return others + ("" if self.opening is None else "; with its opening")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.pgmoplan` file, with the plans of the same program in it.

        Raises:
            FileError: when it cannot be written.
        """
        from pgmo.packing.plan_file import write_plan

        write_plan(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Plan":
        """Reads a `.pgmoplan` file and checks each plan in it like a new one.

        Raises:
            FileError: when it is truncated, altered, newer, or a plan in it is invalid.
        """
        from pgmo.packing.plan_file import read_plan

        return read_plan(path)
