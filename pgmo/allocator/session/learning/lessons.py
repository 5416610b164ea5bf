"""From what was recorded to a list of plans: pure functions, no engine and no framework."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator import tuning
from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.columns import distinct
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.families import families, refine
from pgmo.profiler.iterations.iteration_kinds import compare
from pgmo.profiler.iterations.one_shot import profile_iteration
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.iterations.step_finder import Steady
from pgmo.profiler.iterations.union import unite, united_families, united_shorter
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration


def is_planned(plans: Sequence[PlannedProfile], reference: Iteration) -> bool:
    """Whether one of the plans has this structure, for sizes as large as these.

    Not while another plan of that structure is provisional, for that one may serve it.
    """
    return any(_covers(planned, reference) for planned in plans) and len(
        without_provisional(plans, [reference])
    ) == len(plans)


def _covers(planned: PlannedProfile, iteration: Iteration) -> bool:
    """Whether a plan has all requests of an iteration, at its sizes or larger ones."""
    requests = requests_of(planned.plan)
    match = compare(requests, iteration)
    if match.kind == "none":
        return False
    rows = match.rows_in(requests)
    return bool(np.all(rows != UNPAIRED) and np.all(requests.size[rows] >= iteration.size))


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
    family: NDArray[np.uint32] | None = None,
    in_gap: NDArray[np.bool_] | None = None,
    shorter: NDArray[np.int64] | None = None,
) -> tuple[list[PlannedProfile], int]:
    """Plans a profile together with a plan of the same structure, or behind the others.

    Args:
        plans: those that there are.
        profile: what is to be planned.
        reference: its requests.
        planning: how to plan.
        family: see `PlannedProfile`.
        in_gap: see `Together`.
        shorter: see `Plan`; None where all iterations are of one length.

    Returns:
        The new list, and the number of the profile's plan in it.
    """
    own = Together(profile, family, in_gap=in_gap, shorter=shorter)
    for number, planned in enumerate(plans):
        both = together(planned, profile, reference)
        if both is not None:
            new = both if np.any(both.profile.turns > 0) else own
            return [*plans[:number], new.planned(planning), *plans[number + 1 :]], number
    return [*plans, own.planned(planning)], len(plans)


@dataclass(frozen=True, eq=False)
class Together:
    """Several shapes as one profile, and which of its requests change together.

    Args:
        profile: of all of them.
        family: see `PlannedProfile`.
        headroom: likewise.
        load: likewise.
        in_gap: requests that get no slot, since the framework has memory for them that is idle
            otherwise; shape (requests,), None for none.
        shorter: see `Plan`; None where all iterations are of one length.
    """

    profile: Profile
    family: NDArray[np.uint32] | None
    headroom: float = 0.0
    load: int = 0
    in_gap: NDArray[np.bool_] | None = None
    shorter: NDArray[np.int64] | None = None

    @property
    def families(self) -> int:
        """How many there are."""
        return 0 if self.family is None else len(distinct(self.family))

    def planned(self, options: PlanningOptions) -> PlannedProfile:
        """With a plan."""
        planned = self.profile
        if self.in_gap is not None:
            planned = replace(planned, shared=planned.shared | self.in_gap)
        plan = make_plan(planned, options)
        if self.shorter is not None:
            # What is planned at less than it was somewhere tells nothing.
            plan = replace(plan, shorter=np.minimum(self.shorter, plan.size))
        return PlannedProfile(plan, self.profile, self.headroom, self.family, self.load)


def together(
    planned: PlannedProfile,
    profile: Profile,
    iteration: Iteration,
    headroom: float = 0.0,
    rows: NDArray[np.int64] | None = None,
) -> Together | None:
    """One profile for a plan's structure and another of its shapes.

    Args:
        planned: the plan.
        profile: of one iteration, or of several.
        iteration: the requests of `profile`.
        headroom: share by which requests that have grown are made larger still.
        rows: for each of these requests the plan's that is meant, -1 for none, where it is known;
            shape (len(iteration),).

    Returns:
        None where they are different programs, or too much would have slots that is never alive
        together.
    """
    if rows is None:
        requests = requests_of(planned.plan)
        match = compare(requests, iteration)
        if match.kind == "none":
            return None
        rows = match.rows_in(requests)
    known = planned.profile or planned.plan.profile()
    if not _follows(known.size, iteration.size, rows):
        return None
    both = unite(known, profile, rows, headroom)
    if len(both) > tuning.UNION_REQUESTS * min(len(known), len(profile)):
        return None
    load = max(planned.load or known.max_load(), profile.max_load())
    if both.max_load() > tuning.UNION_LOAD * (1 + headroom) * load:
        return None
    family = united_families(planned.families, rows, iteration.size)
    shorter = united_shorter(planned.plan.shorter, known.size, rows, iteration.size)
    return Together(both, family, headroom, load, shorter=shorter)


def _follows(known: NDArray[np.int64], size: NDArray[np.int64], rows: NDArray[np.int64]) -> bool:
    """Whether replay would know these requests by those that are known, at another length.

    It would not, where most of what differs does by more than lengths do: one token at a time makes
    the requests that a whole prompt makes.
    """
    paired = rows != UNPAIRED
    before, after = known[rows[paired]], size[paired]
    differs = before != after
    before, after = before[differs], after[differs]
    far = np.maximum(before, after) > tuning.FAR_APART * np.minimum(before, after)
    return 2 * int(far.sum()) <= len(far)


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
    if is_known(plans, iteration):
        return None
    order = sorted(range(len(plans)), key=lambda at: at != followed)
    for number in order:
        planned = plans[number]
        requests = requests_of(planned.plan)
        match = compare(requests, iteration)
        if match.kind == "none":
            continue
        rows = match.rows_in(requests)
        paired = rows != UNPAIRED
        growth = float(np.max(iteration.size[paired] / planned.plan.size[rows[paired]], initial=0))
        # Since it was seen last, that is, not by what it exceeds the headroom left then: that would
        # be little, and ever less would be left.
        share, grown = planned.headroom, 0.0
        if growth > 1:
            grown = growth * (1 + share) - 1
            share = min(headroom, 2 * grown)
        known = planned.profile or planned.plan.profile()
        own = profile_iteration(iteration, known, requests, rows)
        both = together(planned, own, iteration, share, rows)
        if both is None:
            continue
        profile = both.profile
        if not np.any(profile.turns > 0):
            return None  # all of it is used on several streams by now
        same = profile.fingerprint == known.fingerprint and np.array_equal(profile.end, known.end)
        if same and both.families == len(distinct(planned.families)):
            return None  # it should have fit: its requests were taken for others
        new = both.planned(planning)
        return Lesson([*plans[:number], new, *plans[number + 1 :]], number, grown)
    base = plans[max(0, followed)]
    known = base.profile or base.plan.profile()
    profile = profile_iteration(iteration, known, requests_of(base.plan))
    if not np.any(profile.turns > 0):
        return None
    return Lesson([*plans, Together(profile, None).planned(planning)], len(plans), 0.0)


def closest(plans: Sequence[PlannedProfile], iteration: Iteration) -> int:
    """Which of the plans has all requests of an iteration, and fewest besides; -1 for none."""
    covering = [at for at, planned in enumerate(plans) if _covers(planned, iteration)]
    return min(covering, key=lambda at: len(plans[at].plan), default=-1)


def is_known(plans: Sequence[PlannedProfile], iteration: Iteration) -> bool:
    """Whether an iteration has nothing to teach: a plan has its requests at its sizes."""
    return not len(iteration) or any(
        requests_of(planned.plan).same_requests(iteration) for planned in plans
    )


def families_of(iterations: Sequence[Iteration], steady: Steady) -> NDArray[np.uint32]:
    """The requests of a recorded structure that change their sizes together."""
    reference = iterations[steady.reference]
    family = families(reference.size, reference.stream)
    for index in sorted(steady.rows.keys() - steady.shadows):
        family = refine(family, steady.rows[index], iterations[index].size)
    return family


def shorter_of(
    iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> NDArray[np.int64] | None:
    """The sizes of a recorded structure's requests in its shortest iteration: see `Plan`."""
    shorter, least = None, int(profile.size.sum())
    for index in sorted(steady.rows.keys() - steady.shadows):
        rows, size = steady.rows[index], iterations[index].size
        paired = rows != UNPAIRED
        total = int(size[paired].sum())
        if total < min(least, int(profile.size[rows[paired]].sum())):
            least, shorter = total, np.zeros(len(profile), np.int64)
            shorter[rows[paired]] = size[paired]
    return shorter


def relatives(
    iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> list[tuple[Profile, Iteration]]:
    """Shorter members of a structure: other kernels were chosen, and some requests left out.

    The profile has room for them, but not their workspaces. Each of them is united with it, or gets
    a plan of its own where that would be much larger than either.

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
