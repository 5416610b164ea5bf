"""The plans that share the arenas, and their way into the engine.

    profile A ─▶ plan A ─┐
    profile B ─▶ plan B ─┴─▶ for each stream one arena, as large as the largest of them needs

An iteration follows one of them; the engine tells which from its first requests. The opening, the
plan of a program's very first iteration, is alone in the engine while it runs.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.adapters.adapter import Adapter, Memory
from pgmo.allocator.plans.layout import Layout
from pgmo.columns import numbered
from pgmo.errors import AdapterError, PlanError
from pgmo.packing.plan import Plan
from pgmo.packing.validator import validate
from pgmo.profiler.iterations.families import families, refine
from pgmo.profiler.ordering.clocks import behind
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import ALIVE, Iteration

_SPILL = -1
"""In the place of a stream: the arena of what plans spill."""


@dataclass(frozen=True, eq=False)
class PlannedProfile:
    """A plan with the profile it was made from; loaded plans have none.

    Args:
        plan: the plan.
        profile: the profile; None for a plan that was loaded.
        family: requests that change their sizes together have one number, shape (requests,); None
            for those that are planned for one size.
    """

    plan: Plan
    profile: Profile | None
    family: NDArray[np.uint32] | None = None

    def __post_init__(self) -> None:
        """A plan of another rank has the lifetimes of that one, and so has what is shown of it."""
        profile, end = self.profile, self.plan.end
        if profile is not None and len(profile) == len(end) and np.any(profile.end != end):
            object.__setattr__(self, "profile", replace(profile, end=end))

    @property
    def families(self) -> NDArray[np.uint32]:
        """Numbers of the families, shape (requests,): by the sizes of the plan at least."""
        if self.family is not None:
            return self.family
        family = families(self.plan.size, self.plan.stream)
        known = np.flatnonzero(self.plan.shorter)
        return refine(family, known, self.plan.shorter[known]) if len(known) else family

    @cached_property
    def key(self) -> tuple[int, int]:
        """Identifies the plan's structure, also when it is planned again at other sizes."""
        return len(self.plan), int(np.flatnonzero(self.plan.varying).sum())

    @staticmethod
    def largest(plans: "list[PlannedProfile]") -> int:
        """Bytes of the largest arena among them."""
        return max((planned.plan.arena for planned in plans), default=0)


class PlanSet:
    """Keeps the engine's plans and arenas in step with a list of plans."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._engine = adapter.engine
        self._layout = Layout([])
        self._trims = 0  # iterations after which idle pages are returned
        self._missing: dict[int, int] = {}  # streams without an arena yet: where they begin
        self.all: list[PlannedProfile] = []

    def __len__(self) -> int:
        return len(self.all)

    @property
    def calm(self) -> bool:
        """Return whether the end of an iteration has nothing to do here."""
        return not self._trims and not self._missing

    def install(self, plans: list[PlannedProfile]) -> None:
        """Replays these plans from now on.

        Raises:
            PlanError: when a plan is invalid or cannot be replayed.
            AdapterError: when there is no memory for the arenas; nothing is served then.
        """
        for planned in plans:
            if planned not in self.all:
                check_replayable(planned.plan, self._adapter.alignment)
        needed = Layout([planned.plan for planned in plans])
        exchange = not self._engine.has_arena or not self._layout.covers(needed)
        self._engine.remove_plans()
        if exchange:
            # The old arenas first: the two are never needed together.
            self._engine.detach_arena()
            self._adapter.empty_cache()
            self._attach([planned.plan for planned in plans])
        self._serve(plans)
        self.all = plans
        # What all of it needed on the device while it was recorded is not needed within a budget;
        # gradients of before live in the first iteration still.
        self._trims = 2 if any(planned.plan.spilled for planned in plans) else 0

    def install_openings(self, openings: list[Plan], steady: list[PlannedProfile]) -> None:
        """Replays plans of the first iteration, in arenas that are large enough for all.

        Args:
            openings: one of them is followed; what it keeps for good has no slot.
            steady: what will be installed afterwards.

        Raises:
            PlanError, AdapterError: as `install`.
        """
        for opening in openings:
            check_replayable(opening, self._adapter.alignment)
        self._adapter.empty_cache()
        self._attach([*openings, *(planned.plan for planned in steady)])
        self._serve([PlannedProfile(opening, None) for opening in openings])
        self.all = []

    def end_iteration(self) -> None:
        """Takes arenas for streams that were used for the first time since the last call."""
        if self._trims:
            self._trims -= 1
            self._adapter.empty_cache(pages=True)
        for stream, begin in list(self._missing.items()):
            try:
                memory = self._adapter.take_arena(self._layout.ranges[stream].size, stream)
            except AdapterError:
                del self._missing[stream]  # the framework serves that stream
                continue
            if memory is not None:
                self._engine.add_arena(stream, begin, memory.base, memory.bytes, *memory.owner)
                del self._missing[stream]

    def set_aside(self) -> None:
        """Forgets all plans, but keeps arenas in which blocks live: they could not go back."""
        if not self._engine.statistics()["live_slot_bytes"]:
            self.clear()
            return
        self._engine.remove_plans()
        self.all = []

    def clear(self) -> None:
        """Forgets all plans; the arenas go back when their last blocks have died."""
        self._engine.remove_plans()
        self._engine.detach_arena()
        self._layout = Layout([])
        self._missing = {}
        self.all = []

    def _serve(self, plans: list[PlannedProfile]) -> None:
        for planned in plans:
            self._add(planned)
        try:
            self._engine.start_serving()
        except RuntimeError:
            # Another thread may have run out of memory meanwhile and taken the arena, in which
            # nothing lived. The session takes one again at the next boundary.
            if self._engine.has_arena:
                raise

    def _attach(self, plans: list[Plan]) -> None:
        self._layout = Layout([])
        layout = Layout(plans, roomy=self._adapter.pages)
        taken = self._take(layout)
        if all(memory is None for stream, memory in taken.items() if stream != _SPILL):
            if (spill := taken.get(_SPILL)) is not None:
                spill.return_now()
            raise AdapterError("none of its streams has been used yet")
        self._hand_over(layout, taken)

    def _take(self, layout: Layout) -> dict[int, Memory | None]:
        taken: dict[int, Memory | None] = {}
        try:
            if layout.spill_size:
                taken[_SPILL] = self._adapter.take_spill(layout.spill_size)
            for stream, range_ in layout.ranges.items():
                taken[stream] = self._adapter.take_arena(range_.size, stream)
        except AdapterError:
            for memory in taken.values():
                if memory is not None:
                    memory.return_now()
            raise
        return taken

    def _hand_over(self, layout: Layout, taken: dict[int, Memory | None]) -> None:
        self._layout = layout
        self._missing = {}
        spill = taken.pop(_SPILL, None)
        if spill is not None:  # first: with each arena, plans are checked against all there is
            self._engine.add_spill(layout.resident, spill.base, spill.bytes, *spill.owner)
        for stream, memory in taken.items():
            begin = layout.ranges[stream].begin
            if memory is None:
                self._missing[stream] = begin
            else:
                self._engine.add_arena(stream, begin, memory.base, memory.bytes, *memory.owner)

    def _add(self, planned: PlannedProfile) -> None:
        plan = planned.plan
        offset, alternate = self._layout.place(plan)
        streams, stream_index = numbered(plan.stream)
        self._engine.add_plan(
            size=plan.size,
            stream_index=stream_index.astype(np.uint32),
            varying=plan.varying,
            end=plan.end,
            offset=offset,
            alternate=alternate,
            family=planned.families,
            streams=[int(stream) for stream in streams],
            arena_bytes=self._layout.size,
            alignment=plan.alignment,
            behind=_behind(plan, streams),
        )


def _behind(plan: Plan, streams: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """From which tick on each stream comes after each block; None where that is not known."""
    if plan.order is None or len(streams) < 2:
        return None
    return behind(
        plan.order,
        start=plan.start,
        end=plan.end,
        stream=plan.stream,
        ticks=plan.ticks,
        streams=streams,
    )


def check_replayable(plan: Plan, alignment: int) -> None:
    """Checks that the engine may replay a plan: valid, and made of an iteration's requests.

    Raises:
        PlanError: naming what is wrong.
    """
    validate(plan)
    if plan.alignment % alignment:
        raise PlanError(
            f"the plan is aligned to {plan.alignment} bytes, but this framework needs {alignment}; "
            f"plan again with alignment={alignment}"
        )
    if not plan.circular or not np.array_equal(plan.start, np.arange(plan.ticks)):
        raise PlanError(
            "the plan cannot be replayed: it was not made from a recorded iteration, "
            "with one row per request; record one with pgmo.optimize()"
        )
    if not plan.arena:
        raise PlanError("the plan has no blocks, so there is nothing to replay")


def requests_of(plan: Plan | Profile) -> Iteration:
    """Return the requests of a plan or a profile, to compare iterations with."""
    rows = len(plan)
    return Iteration(
        index=-1,
        first=0,
        size=plan.size,
        stream=plan.stream,
        thread=np.zeros(rows, np.uint32),
        tag=np.full(rows, -1, np.int32),
        gone=np.full(rows, ALIVE, np.int64),
        shared=plan.shared,
        in_gap=np.zeros(rows, np.bool_),
    )
