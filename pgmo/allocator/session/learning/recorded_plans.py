"""Plans from a recording. Each repeating structure gets one plan for all its sequence lengths.

A structure's *reference* is the recorded iteration with which other iterations were compared.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile, requests_of
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.families import families, refine
from pgmo.profiler.iterations.iteration_kinds import compare
from pgmo.profiler.iterations.lifetimes import Steady
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration


def all_repeat(iterations: Sequence[Iteration], newest: Steady) -> bool:
    """Return whether the newest structure's reference and all later iterations are equal."""
    return newest.kind == "exact" and all(
        index in newest.rows for index in range(newest.reference, len(iterations))
    )


def all_found(
    iterations: Sequence[Iteration], found: Sequence[Steady], known: Sequence[PlannedProfile]
) -> bool:
    """Return whether each iteration from the first reference on has a found structure or a plan."""
    first = min(steady.reference for steady in found)
    return all(
        any(index in steady.rows for steady in found) or is_planned(known, iterations[index])
        for index in range(first, len(iterations))
    )


def plan_all(
    iterations: Sequence[Iteration],
    found: Sequence[tuple[Profile, Steady]],
    known: Sequence[PlannedProfile],
    planning: PlanningOptions,
    *,
    keeps_gaps: bool,
) -> tuple[list[PlannedProfile], int]:
    """Plan the found structures. Return all plans with an arena, and the number of the newest.

    A known plan is dropped if a new plan serves all requests of the known plan at every length. If
    the newest plan has no arena, the number is 0.

    Args:
        iterations: the recorded iterations.
        found: structures that repeat, newest last, with the profile of each.
        known: existing plans.
        planning: planning options.
        keeps_gaps: whether requests that fit into the framework's idle memory get no slot.
    """
    same = all_repeat(iterations, found[-1][1])
    if same and not known:
        found = found[-1:]  # earlier structures were warm-up and do not recur
    plans = list(known)
    for profile, steady in found:
        requests, planned_for = iterations[steady.reference], profile
        if same and keeps_gaps:
            planned_for = replace(profile, shared=profile.shared | requests.in_gap)
        plan = make_plan(planned_for, planning)
        shorter = shorter_of(iterations, steady, profile)
        if shorter is not None:
            # A recorded size above the planned size does not come from a longer sequence.
            plan = replace(plan, shorter=np.minimum(shorter, plan.size))
        newest = PlannedProfile(plan, profile, families_of(iterations, steady))
        covered = [one for one in plans if _covers(newest, requests_of(one.plan))]
        newest.followed = max((one.followed for one in covered), default=0)
        plans = [*(one for one in plans if one not in covered), newest]
    # A plan without an arena serves nothing: the framework has idle memory for all requests.
    with_arena = [planned for planned in plans if planned.plan.arena]
    number = with_arena.index(plans[-1]) if plans[-1] in with_arena else 0
    return with_arena, number


def is_planned(plans: Sequence[PlannedProfile], reference: Iteration) -> bool:
    """Return whether a plan has all requests of an iteration, at sizes that it serves."""
    return any(_covers(planned, reference) for planned in plans)


def _covers(planned: PlannedProfile, iteration: Iteration) -> bool:
    requests = requests_of(planned.plan)
    match = compare(requests, iteration)
    if match.kind == "none":
        return False
    rows = match.rows_in(requests)
    if np.any(rows == UNPAIRED):
        return False
    size = requests.size[rows]
    return bool(
        np.all((size == iteration.size) | planned.plan.varying[rows] & (size > iteration.size))
    )


def families_of(iterations: Sequence[Iteration], steady: Steady) -> NDArray[np.uint32]:
    """Return the family number of each request of the reference, shape (requests,)."""
    reference = iterations[steady.reference]
    family = families(reference.size, reference.stream)
    for index in sorted(steady.rows):
        family = refine(family, steady.rows[index], iterations[index].size)
    return family


def shorter_of(
    iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> NDArray[np.int64] | None:
    """Return the sizes in a structure's shortest iteration, for `Plan.shorter`.

    The result is in bytes, shape (requests,), with 0 for missing requests. It is None if no
    iteration is shorter than the profile.
    """
    shorter, least = None, int(profile.size.sum())
    for index in sorted(steady.rows):
        rows, size = steady.rows[index], iterations[index].size
        paired = rows != UNPAIRED
        total = int(size[paired].sum())
        if total < min(least, int(profile.size[rows[paired]].sum())):
            least, shorter = total, np.zeros(len(profile), np.int64)
            shorter[rows[paired]] = size[paired]
    return shorter
