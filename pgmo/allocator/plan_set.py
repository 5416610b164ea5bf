"""The plans that share one arena, and their way into the engine.

    profile A ─▶ plan A ─┐
    profile B ─▶ plan B ─┴─▶ one arena, as large as the largest of them needs

An iteration follows one of them; the engine tells which from its first requests.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pgmo import _core
from pgmo.errors import PlanError
from pgmo.packing.plan import Plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import Profile

_SHRINK = 0.9
"""An arena is exchanged for a smaller one only if that needs less than this share of it."""


class Framework(Protocol):
    """What a session needs of an adapter."""

    name: str
    version: str
    device: str
    alignment: int
    engine: _core.Engine

    def install(self) -> None:
        """Puts the engine under the framework's allocator."""

    def uninstall(self) -> None:
        """Takes it away again."""

    def attach_arena(self, size: int) -> None:
        """Takes an arena from the framework and hands it to the engine."""

    def empty_cache(self) -> None:
        """Returns the framework's unused memory to the system."""

    def spare_memory(self, on: bool) -> None:
        """Prefers a low peak over speed in the framework's own allocator, as long as it is on."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan with the profile it was made from; loaded plans have none."""

    plan: Plan
    profile: Profile | None


class PlanSet:
    """Keeps the engine's plans and arena in step with a list of plans.

    Example:
        >>> plans = PlanSet(framework, most=4)  # doctest: +SKIP
        >>> plans.add(Planned(plan, profile))  # doctest: +SKIP
    """

    def __init__(self, framework: Framework, most: int) -> None:
        self._framework = framework
        self._most = most
        self._arena = 0
        self.all: list[Planned] = []

    def __len__(self) -> int:
        return len(self.all)

    @property
    def arena(self) -> int:
        """Bytes of the arena in use."""
        return self._arena

    def add(self, new: Planned) -> None:
        """Adds a plan; the oldest goes where there are too many.

        Raises:
            PlanError: when the plan is invalid or cannot be replayed.
        """
        self._install([*self.all, new][-self._most :])

    def replace(self, number: int, new: Planned) -> None:
        """Puts a plan in the place of another.

        Raises:
            PlanError: when the plan is invalid or cannot be replayed.
        """
        self._install([new if at == number else old for at, old in enumerate(self.all)])

    def renew_arena(self) -> None:
        """Moves all plans to a fresh arena; the old one goes back when its last block has died.

        Raises:
            AdapterError: when there is no memory for it; all stays as it was then.
        """
        self._framework.attach_arena(self._arena)

    def clear(self) -> None:
        """Forgets all plans; the arena goes back when its last block has died."""
        self._framework.engine.remove_plans()
        self._framework.engine.detach_arena()
        self._arena = 0
        self.all = []

    def _install(self, plans: list[Planned]) -> None:
        engine = self._framework.engine
        for planned in plans:
            if planned not in self.all:
                check_replayable(planned.plan, self._framework.alignment)
        needed = max(planned.plan.arena for planned in plans)
        engine.remove_plans()
        if needed > self._arena or needed < _SHRINK * self._arena:
            # The old arena first: the two are never needed together.
            engine.detach_arena()
            self._arena = 0
            self._framework.empty_cache()
            self._framework.attach_arena(needed)
            self._arena = needed
        for planned in plans:
            _add_to_engine(engine, planned.plan)
        self.all = plans
        engine.start_serving()


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


def _add_to_engine(engine: _core.Engine, plan: Plan) -> None:
    streams, stream_index = np.unique(plan.stream, return_inverse=True)
    engine.add_plan(
        size=plan.size,
        stream_index=stream_index.astype(np.uint32),
        varying=plan.varying,
        end=plan.end,
        offset=plan.offset,
        alternate=plan.alternate,
        streams=[int(stream) for stream in streams],
        arena_bytes=plan.arena,
        alignment=plan.alignment,
    )
