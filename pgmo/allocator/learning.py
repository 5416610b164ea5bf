"""From what was recorded to a list of plans: pure functions, no engine and no framework."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.conversions import requests_of
from pgmo.allocator.plan_set import Planned
from pgmo.packing.plan import Plan
from pgmo.packing.portfolio import plan as make_plan
from pgmo.profiler.alignment import UNPAIRED
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration
from pgmo.profiler.step_finder import Steady, compare

NONE = 2**32 - 1
"""Stands for "none" in the engine's numbers of blocks, plans and requests."""


def is_planned(plans: Sequence[Planned], reference: Iteration) -> bool:
    """Whether one of the plans has this structure, for sizes as large as these."""
    return any(
        len(planned.plan) == len(reference)
        and bool(np.all(planned.plan.size >= reference.size))
        and compare(requests_of(planned.plan), reference).kind != "none"
        for planned in plans
    )


def merge(
    plans: list[Planned], profile: Profile, reference: Iteration, *, solver: str, alignment: int
) -> tuple[list[Planned], int]:
    """Plans a profile, in the place of a plan of the same structure or behind the others.

    Returns:
        The new list, and the number of the profile's plan in it.
    """
    number = len(plans)
    for at, planned in enumerate(plans):
        if compare(requests_of(planned.plan), reference).kind != "none":
            number = at
            if len(planned.plan.size) == len(profile):
                profile = envelope(profile, planned.plan)
            break
    new = Planned(make_plan(profile, solver=solver, alignment=alignment), profile)
    return [*plans[:number], new, *plans[number + 1 :]], number


def envelope(profile: Profile, plan: Plan) -> Profile:
    """Another shape of what is planned already: one profile for both, with the larger sizes."""
    varying = profile.varying | plan.varying | (profile.size != plan.size)
    return replace(profile.widened(np.maximum(plan.size, profile.size)), varying=varying)


def rows_by_address(
    living: NDArray[np.void], iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> dict[int, int]:
    """For recorded blocks that are alive and that the next iteration frees: their rows.

    Args:
        living: what is alive, from the engine; dtype `relocation.LIVING`.
        iterations: all that were recorded.
        steady: the structure whose plan is about to be used.
        profile: that structure's.
    """
    rows = {}
    first = np.array([iteration.first for iteration in iterations])
    for block in living[living["block"] != NONE]:
        number = int(block["block"])
        index = int(np.searchsorted(first, number, side="right")) - 1
        ordinal = number - iterations[index].first
        # A lifetime ends with the second iteration after the first at the latest.
        recent = index >= len(iterations) - 2
        if not recent or index not in steady.rows or ordinal >= len(iterations[index]):
            continue
        row = int(steady.rows[index][ordinal])
        if row != UNPAIRED and profile.turns[row] > 0 and profile.end[row] > profile.ticks:
            rows[int(block["address"])] = row
    return rows


def rows_of_plan(living: NDArray[np.void], number: int) -> dict[int, int]:
    """For blocks that are alive and were requested as this plan has it: their rows."""
    mine = living[(living["plan"] == number) & (living["request"] != NONE)]
    return {int(one["address"]): int(one["request"]) for one in mine}


def steady_of(base: Iteration, iterations: Sequence[Iteration]) -> Steady:
    """The recorded iterations that a given plan's requests fit, as a structure."""
    rows, varying = {}, np.zeros(len(base), np.bool_)
    for iteration in iterations:
        match = compare(base, iteration)
        if match.kind != "none" and match.base is base:
            rows[iteration.index] = match.rows
    return Steady("fit", iterations[-1].index, rows, varying, frozenset(), 0, "as the plan given")
