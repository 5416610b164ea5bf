"""Set of plans that share arenas, and their installation in the engine.

    profile A ─▶ plan A ─┐
    profile B ─▶ plan B ─┴─▶ one arena per stream, as large as the largest plan needs

Each iteration follows one plan, which the engine selects by the iteration's first requests. An
*opening* is a plan of the program's first iteration. While openings serve the first iteration, no
other plan is in the engine.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace

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


@dataclass(eq=False)
class PlannedProfile:
    """A plan and the profile from which it was made.

    Args:
        plan: the plan.
        profile: the profile; None if unknown.
        family: family number of each request, shape (requests,); sizes in a family change together.
            None if unknown.
        follows_events: whether streams share pages only if the program's events order their uses.
            Otherwise streams share pages in the order of the requests, and may wait for each other.
        followed: number of the last iteration that followed the plan; 0 for none.
    """

    plan: Plan
    profile: Profile | None
    family: NDArray[np.uint32] | None = None
    follows_events: bool = True
    followed: int = 0

    def __post_init__(self) -> None:
        """Copy the plan's lifetimes into the profile: another rank may have made the plan."""
        profile, end = self.profile, self.plan.end
        if profile is not None and len(profile) == len(end) and np.any(profile.end != end):
            self.profile = replace(profile, end=end)

    @property
    def families(self) -> NDArray[np.uint32]:
        """Family number of each request, shape (requests,); derived from sizes if unknown."""
        if self.family is not None:
            return self.family
        family = families(self.plan.size, self.plan.stream)
        known = np.flatnonzero(self.plan.shorter)
        return refine(family, known, self.plan.shorter[known]) if len(known) else family

    @staticmethod
    def largest(plans: "list[PlannedProfile]") -> int:
        """Return the bytes that the largest plan needs; 0 without plans."""
        return max((planned.plan.arena for planned in plans), default=0)


class PlanSet:
    """Plans of a session, kept in sync with the engine's plans and arenas.

    Attributes:
        all: the installed plans, without openings.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._engine = adapter.engine
        self._layout = Layout([])
        self._trims = 0  # number of remaining iterations that free idle pages at their end
        self._missing: set[int] = set()  # streams without an arena yet
        self.all: list[PlannedProfile] = []

    def __len__(self) -> int:
        return len(self.all)

    @property
    def has_no_pending_work(self) -> bool:
        """Return whether `end_iteration` has nothing to do."""
        return not self._trims and not self._missing

    def install(self, plans: list[PlannedProfile]) -> None:
        """Replay these plans from now on.

        Raises:
            PlanError: if a plan is invalid or cannot be replayed.
            AdapterError: if there is no memory for the arenas, or no stream of the plans was used
                yet. The engine then has neither plans nor arenas.
        """
        for planned in plans:
            if planned not in self.all:
                check_replayable(planned.plan, self._adapter.alignment)
        needed = Layout([planned.plan for planned in plans])
        exchange = not self._engine.has_arena or not self._layout.covers(needed)
        self._engine.remove_plans()
        if exchange:
            # Free the old arenas first, so that old and new arenas are never held together.
            self._engine.detach_arena()
            self._adapter.empty_cache()
            self._attach([planned.plan for planned in plans])
        self._serve(plans)
        self.all = plans
        # A plan with a budget needs fewer pages than the recording. Idle pages are freed after each
        # of two iterations, because earlier gradients occupy pages during the first iteration.
        self._trims = 2 if any(planned.plan.spilled for planned in plans) else 0

    def install_openings(self, openings: list[Plan], steady: list[PlannedProfile]) -> None:
        """Replay plans of the first iteration, in arenas that also have room for `steady` plans."""
        for opening in openings:
            check_replayable(opening, self._adapter.alignment)
        self._adapter.empty_cache()
        self._attach([*openings, *(planned.plan for planned in steady)])
        self._serve([PlannedProfile(opening, None) for opening in openings])
        self.all = []

    def end_iteration(self) -> None:
        """Allocate arenas of newly used streams, and free idle pages while `_trims` is positive."""
        if self._trims:
            self._trims -= 1
            self._adapter.empty_cache(pages=True)
        for stream in list(self._missing):
            try:
                memory = self._adapter.take_arena(len(self._layout.ranges[stream]), stream)
            except AdapterError:
                self._missing.remove(stream)  # no slot serves that stream
                continue
            if memory is not None:
                self._missing.remove(stream)
                self._add_arena(stream, memory)

    def set_aside(self) -> None:
        """Remove all plans. If a slot has a live block, keep the arenas for the next plans."""
        if not self._engine.statistics()["live_slot_bytes"]:
            self.clear()
            return
        self._engine.remove_plans()
        self.all = []

    def clear(self) -> None:
        """Remove all plans; the arenas are freed with their last blocks."""
        self._engine.remove_plans()
        self._engine.detach_arena()
        self._layout = Layout([])
        self._missing = set()
        self.all = []

    def _serve(self, plans: list[PlannedProfile]) -> None:
        for planned in plans:
            self._add(planned)
        try:
            self._engine.start_serving()
        except RuntimeError:
            # Another thread that ran out of memory may have freed the empty arena. The session
            # allocates a new one at the next boundary.
            if self._engine.has_arena:
                raise

    def _attach(self, plans: list[Plan]) -> None:
        self._layout = Layout([])
        layout = Layout(plans, roomy=self._adapter.pages)
        spill, arenas = None, {}
        with ExitStack() as undo:
            if layout.spill_size:
                spill = self._adapter.take_spill(layout.spill_size)
                undo.callback(spill.return_now)
            for stream, range_ in layout.ranges.items():
                memory = self._adapter.take_arena(len(range_), stream)
                if memory is not None:
                    arenas[stream] = memory
                    undo.callback(memory.return_now)
            if not arenas:
                raise AdapterError("no stream of the plan has been used yet")
            undo.pop_all()
        self._layout = layout
        self._missing = set(layout.ranges) - set(arenas)
        if spill is not None:  # before the arenas, because `add_arena` checks plans
            self._engine.add_spill(layout.resident, spill.base, spill.bytes, *spill.owner)
        for stream, memory in arenas.items():
            self._add_arena(stream, memory)

    def _add_arena(self, stream: int, memory: Memory) -> None:
        begin = self._layout.ranges[stream].start
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
            behind=_ticks_after_use(plan, streams) if planned.follows_events else None,
        )


def _ticks_after_use(plan: Plan, streams: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """Return the tick from which each stream is ordered after each block's use; None if unknown."""
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
    """Raise `PlanError` if a plan is invalid, misaligned, without slots, or was not recorded."""
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
        raise PlanError("the plan has no slots, so there is nothing to replay")


def requests_of(plan: Plan | Profile) -> Iteration:
    """Return the requests of a plan or a profile, for comparison with iterations."""
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
