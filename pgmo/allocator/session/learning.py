"""From what was recorded to a list of plans: pure functions, no engine and no framework."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.packing.plan import Plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.one_shot import profile_iteration, widen
from pgmo.profiler.iterations.step_finder import Steady, compare
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration


def is_planned(plans: Sequence[PlannedProfile], reference: Iteration) -> bool:
    """Whether one of the plans has this structure, for sizes as large as these.

    Not while another plan of that structure is provisional, for that one may serve it.
    """
    return any(
        len(planned.plan) == len(reference)
        and bool(np.all(planned.plan.size >= reference.size))
        and compare(requests_of(planned.plan), reference).kind != "none"
        for planned in plans
    ) and len(without_provisional(plans, [reference])) == len(plans)


def without_provisional(
    plans: Sequence[PlannedProfile], references: Sequence[Iteration]
) -> list[PlannedProfile]:
    """The plans without those provisional ones that are of one of these structures."""
    return [
        planned
        for planned in plans
        if not planned.provisional
        or all(compare(requests_of(planned.plan), one).kind == "none" for one in references)
    ]


def merge(
    plans: list[PlannedProfile],
    profile: Profile,
    reference: Iteration,
    planning: PlanningOptions,
) -> tuple[list[PlannedProfile], int]:
    """Plans a profile, in the place of a plan of the same structure or behind the others.

    Returns:
        The new list, and the number of the profile's plan in it.
    """
    number = len(plans)
    for at, planned in enumerate(plans):
        same_length = len(planned.plan) == len(profile)
        if same_length and compare(requests_of(planned.plan), reference).kind != "none":
            number = at
            both = envelope(profile, planned.plan)
            profile = both if np.any(both.turns > 0) else profile
            break
    new = PlannedProfile(make_plan(profile, planning), profile)
    return [*plans[:number], new, *plans[number + 1 :]], number


def envelope(profile: Profile, plan: Plan) -> Profile:
    """Another shape of what is planned already: one profile for both, with the larger sizes."""
    varying = profile.varying | plan.varying | (profile.size != plan.size)
    shared = profile.shared | plan.shared
    wide = profile.widened(np.maximum(plan.size, profile.size))
    return replace(wide, varying=varying, shared=shared)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What one iteration has taught.

    Args:
        plans: the plans with a new or changed one.
        number: of that one.
        grown: by how much the largest of its requests has grown, as a share; 0 for a new plan.
    """

    plans: list[PlannedProfile]
    number: int
    grown: float


def learn(
    plans: list[PlannedProfile],
    iteration: Iteration,
    followed: int,
    *,
    headroom: float,
    planning: PlanningOptions,
) -> Lesson | None:
    """Makes of an iteration that no plan served well a plan that does.

    Of a structure that is known, a plan for larger sizes; else, or where the requests of a known
    one were not recognised at these sizes, a plan of its own.

    Args:
        plans: those that there are.
        iteration: what was recorded.
        followed: number of the plan that served it, -1 for none.
        headroom: share by which requests that have grown are planned larger still.
        planning: how to plan.

    Returns:
        None when there is nothing to learn: a plan has these requests at these sizes.
    """
    if not len(iteration) or any(
        requests_of(planned.plan).same_requests(iteration) for planned in plans
    ):
        return None
    order = sorted(range(len(plans)), key=lambda at: at != followed)
    for number in order:
        plan = plans[number].plan
        if len(plan) != len(iteration):
            continue
        if compare(requests_of(plan), iteration).kind == "none":
            continue
        growth = iteration.size / plan.size
        if np.all(growth == 1):
            return None
        if np.all((growth == 1) | (plan.varying & (growth < 1))):
            break  # it should have fit: sizes must have been confused
        known = plans[number].profile or plan.profile()
        # Since it was seen last, that is, not by what it exceeds the headroom left then: that would
        # be little, and ever less would be left.
        share, grown = plans[number].headroom, 0.0
        if growth.max() > 1:
            grown = float(growth.max()) * (1 + share) - 1
            share = min(headroom, 2 * grown)
        profile = widen(known, iteration, share)
        if not np.any(profile.turns > 0):
            return None  # all of it is used on several streams by now
        new = PlannedProfile(make_plan(profile, planning), profile, share)
        return Lesson([*plans[:number], new, *plans[number + 1 :]], number, grown)
    base = plans[max(0, followed)]
    known = base.profile or base.plan.profile()
    profile = profile_iteration(iteration, known, requests_of(base.plan))
    if not np.any(profile.turns > 0):
        return None
    new = PlannedProfile(make_plan(profile, planning), profile)
    return Lesson([*plans, new], len(plans), 0.0)


def relatives(
    iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> list[tuple[Profile, Iteration]]:
    """Shorter members of a structure: other kernels were chosen, and some requests left out.

    The profile has room for them, but at replay a request that is left out is easily confused with
    one of the same size. So each of them gets a plan of its own, made from its largest iteration.

    Args:
        iterations: all that were recorded.
        steady: the structure.
        profile: of its longest member, the reference.
    """
    reference = iterations[steady.reference]
    largest: dict[int, Iteration] = {}
    for index in sorted(steady.rows.keys() - steady.shadows - {0}):
        one = iterations[index]
        if len(one) == len(reference):
            continue
        before = largest.get(len(one))
        if before is None or one.size.sum() > before.size.sum():
            largest[len(one)] = one
    made = [(profile_iteration(one, profile, reference), one) for one in largest.values()]
    return [(own, one) for own, one in made if np.any(own.turns > 0)]
