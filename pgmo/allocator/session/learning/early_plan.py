"""A plan from one of a program's first iterations, which serves while recording goes on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.lessons import Together, learn
from pgmo.columns import is_among
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.gradient_sums import summed_in_place
from pgmo.profiler.iterations.lifetimes import build_profile, only
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.iterations.step_finder import best_effort
from pgmo.profiler.ordering.recorded import kept_rows
from pgmo.profiler.profile import ProfileMeta
from pgmo.profiler.recording import ALIVE, Iteration
from pgmo.profiler.tag import Tag

_OF_PARAMETERS = ("backward", "optimizer")
"""The phases in which what a program leaves alive is gradients and state."""


def from_single(
    iteration: Iteration,
    tags: Sequence[Tag],
    meta: ProfileMeta,
    planning: PlanningOptions,
    fixed: NDArray[np.int64] | None = None,
    before: Iteration | None = None,
) -> PlannedProfile | None:
    """A plan from one of a program's first iterations, for the next, while recording goes on.

    What the very first one leaves alive has no slot. Gradients come again, and are expected where
    tags tell them; optimizer state does not. All else has shown its whole life. Of later ones all
    comes again, and what they leave alive lives as long as what the one before has left.

    Args:
        iteration: one of the first.
        tags: what the tags of recorded iterations stand for.
        meta: of the profile.
        planning: how to plan.
        fixed: sizes that the next iteration has, too, in bytes: see `lasting_sizes`. All others may
            be those of another batch. None: it has all sizes of this one.
        before: the iteration before, in the same recording; None for the very first.

    Returns:
        None where nothing is freed in the iteration.
    """
    iteration, summed = summed_in_place(iteration, tags)
    alive, kept = iteration.gone == ALIVE, ~summed
    if before is None:
        backward = [at for at, tag in enumerate(tags) if tag.phase == "backward"]
        kept &= ~alive | is_among(iteration.tag, backward)
    if not np.any(kept & ~alive):
        return None
    # Ends are numbers of requests; those of the next iteration follow those of this one.
    gone = iteration.gone - iteration.first
    if before is not None:
        gone = np.where(alive, len(iteration) + _ends_of_last(iteration, before, tags), gone)
    ticks = np.concatenate(([0], np.cumsum(kept)))  # requests that are kept, before each
    turn, within = np.divmod(gone, len(iteration))
    known = ~alive | (gone >= len(iteration))
    own, rows = only(iteration, kept), kept_rows(iteration.rows, iteration.first, kept)
    own = replace(
        own,
        index=0,
        first=0,
        gone=np.where(known, turn * ticks[-1] + ticks[within], ALIVE)[kept],
        tag=np.full_like(own.tag, -1),
        shared=own.shared | own.in_gap,  # neither gets a slot
        rows=rows,
    )
    steady = best_effort([own])
    if steady is None:
        return None
    again = replace(own, index=1, first=len(own), gone=np.full_like(own.gone, ALIVE))
    steady = replace(steady, rows={0: steady.rows[0], 1: steady.rows[0]}, shadows=frozenset({1}))
    profile = build_profile([own, again], steady, (), meta)
    if not np.any(profile.turns > 0):
        return None
    planned = Together(profile, None).planned(planning)
    if fixed is None:
        return planned
    # Of the forward pass nothing is a gradient's, though it may have the size of one.
    forward = [at for at, tag in enumerate(tags) if tag.phase not in _OF_PARAMETERS]
    varying = ~is_among(own.size, fixed) | is_among(iteration.tag[kept], forward)
    return replace(planned, plan=replace(planned.plan, varying=varying), guessed=True)


def lasting_sizes(iteration: Iteration, tags: Sequence[Tag]) -> NDArray[np.int64]:
    """The sizes of a program's parameters, as its first iteration tells them.

    Gradients and optimizer state are left alive; what has another size may be another batch's.
    What generates tokens leaves a cache alive, which grows, but has no backward pass.
    """
    lasting = iteration.gone == ALIVE
    if tags:
        phases = [at for at, tag in enumerate(tags) if tag.phase in _OF_PARAMETERS]
        lasting = lasting & is_among(iteration.tag, phases)
    return np.array(sorted(set(iteration.size[lasting].tolist())), np.int64)


def from_both(
    early: PlannedProfile, iteration: Iteration, planning: PlanningOptions
) -> PlannedProfile | None:
    """A plan for what an early plan was made from, and for another iteration, at another length.

    Args:
        early: the plan so far.
        iteration: what it did not serve.
        planning: how to plan.

    Returns:
        None where they are different programs.
    """
    lesson = learn([early], iteration, 0, headroom=0.0, planning=planning)
    return lesson.plans[0] if lesson is not None and lesson.number == 0 else None


def _ends_of_last(
    iteration: Iteration, before: Iteration, tags: Sequence[Tag]
) -> NDArray[np.int64]:
    """When what the iteration before has left alive died in this one, by its counterpart's row.

    Returns:
        Requests of this iteration before that, shape of its requests; less than 0 where it is not
        known, as this iteration has no end before that of its first request.
    """
    before, summed = summed_in_place(before, tags)
    rows = align(iteration, only(before, ~summed))
    gone = before.gone[~summed] - iteration.first
    told = (rows != UNPAIRED) & (before.gone[~summed] != ALIVE) & (gone >= 0)
    ends = np.full(len(iteration), -2 * len(iteration), np.int64)
    ends[rows[told]] = gone[told]
    return ends
