"""Begins a session with the nearest plan of a directory, and says how near it is."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.plan_set import check_replayable
from pgmo.allocator.ranks.directory import Found, directory_of
from pgmo.allocator.ranks.world import world
from pgmo.allocator.session.state import SessionState
from pgmo.errors import PlanError
from pgmo.packing.plan import Plan
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.iterations.step_finder import compare
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration

_NEAR = 0.9
"""Share of an iteration's requests that a plan must have: FSDP's for a world of another size has
three quarters of them, the next run of a program 0.97 and more."""


class Nearest:
    """The plans that a session may begin with, where it was named a directory.

    Args:
        state: where the session stands.

    Attributes:
        wanted: whether there is a directory to look in: one that `plan=` names, or, of several
            ranks, the one that `save=` does.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._folder = _folder(state)
        self._rest: Iterator[Found] = iter(())
        self._found: Found | None = None
        self.wanted = self._folder is not None

    def begin(self) -> tuple[Plan, Profile | None] | None:
        """The nearest plan and its profile; None where there is none that could be replayed."""
        assert self._folder is not None
        self._rest = self._replayable(directory_of(self._state, self._folder).found())
        self._found = next(self._rest, None)
        if self._found is not None:
            return self._found.plan, self._found.profile
        if self._state.options.plan is not None:
            self._state.notes.append(f"{self._folder} has no plan for this yet")
        return None

    @property
    def may_open(self) -> bool:
        """Whether the plan may serve the first iteration, before any was compared with it.

        What is born there for good lies where the plan had something else, if it is another
        program's, and stays in the way. So only what was saved under the same circumstances may.
        """
        return self._found is None or self._found.same

    def another(self, iteration: Iteration) -> bool:
        """Whether one of the others has the requests of an iteration; then it is the session's."""
        for found in self._rest:
            if self.is_near(share_of_known(found.plan, iteration)):
                self._found = found
                self._state.plan, self._state.profile = found.plan, found.profile
                return True
        return False

    def is_near(self, share: float) -> bool:
        """Whether a plan may serve a program whose iteration had so many of its requests.

        One that somebody named may grow into another. One that was found here may be any
        program's of that name, or a shard of another size.
        """
        return not self.wanted or share >= _NEAR

    def tell(self, share: float) -> None:
        """Notes whose plan serves.

        Args:
            share: of an iteration's requests, those that the plan has.
        """
        if self._found is not None:
            whose = f"{self._found.path.name}, {self._found.told}"
            self._state.notes.append(f"began with {whose}: it has {share:.1%} of the requests")

    def refuse(self) -> None:
        """Notes that none was this program's."""
        self._state.notes.append(
            f"none of the plans in {self._folder} is near enough (the nearest was "
            f"{self._found.told if self._found else 'none'}); making a new one"
        )

    def _replayable(self, found: Iterator[Found]) -> Iterator[Found]:
        alignment = self._state.adapter.alignment
        for one in found:
            try:
                for plan in (one.plan, *one.plan.others):
                    check_replayable(plan, alignment)
            except PlanError:
                continue
            yield one


def share_of_known(plan: Plan, iteration: Iteration) -> float:
    """The share of an iteration's requests that a plan has at their sizes, or of any size.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> from pgmo.profiler.profile import Profile
        >>> one = plan(Profile.from_columns(size=[64, 32], start=[0, 1], end=[1, 2], ticks=2))
        >>> share_of_known(one, requests_of(one))
        1.0
    """
    requests = requests_of(plan)
    match = compare(requests, iteration)
    if match.kind == "none":
        return 0.0
    rows = match.rows_in(requests)
    paired = rows != UNPAIRED
    equal = requests.size[rows[paired]] == iteration.size[paired]
    return int(np.count_nonzero(equal | plan.varying[rows[paired]])) / max(1, len(iteration))


def _folder(state: SessionState) -> Path | None:
    options = state.options
    if isinstance(options.plan, str | os.PathLike):
        return Path(options.plan) if os.path.isdir(options.plan) else None
    ranks = options.save_directory is not None and world() is not None
    begins_anew = options.plan is None and options.profile is None and not options.record_only
    return options.save_directory if ranks and begins_anew else None
