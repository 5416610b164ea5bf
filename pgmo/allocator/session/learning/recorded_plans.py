"""Plans from a recording: one for each structure, united where lengths alone differ.

Pure functions: no engine, no framework.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator import heuristics
from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.loop_planning import make_plan
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.iterations.families import families, refine
from pgmo.profiler.iterations.iteration_kinds import compare
from pgmo.profiler.iterations.one_shot import profile_iteration
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.iterations.step_finder import Steady
from pgmo.profiler.iterations.union import unite, united_families, united_shorter
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration


@dataclass(frozen=True, eq=False)
class Structure:
    """Iterations of a program that differ in lengths alone, until they are planned.

    Holds what replay needs beside the profile: families and the sizes of a shorter iteration.

    Args:
        profile: of all of them.
        requests: of one iteration, or of the profile; in the order of the profile's rows.
        family: see `PlannedProfile`.
        shorter: see `Plan`; None where all iterations are of one length.
        load: see `PlannedProfile`.
        in_gap: requests that get no slot, since the framework has memory for them that is idle
            otherwise; shape (requests,), None for none.
        plan: that it has already; None where it has to be planned.
    """

    profile: Profile
    requests: Iteration
    family: NDArray[np.uint32] | None = None
    shorter: NDArray[np.int64] | None = None
    load: int = 0
    in_gap: NDArray[np.bool_] | None = None
    plan: PlannedProfile | None = None

    @classmethod
    def of(cls, planned: PlannedProfile) -> "Structure":
        """Return the structure that a plan was made for."""
        plan = planned.plan
        profile = planned.profile or plan.profile()
        requests, load = requests_of(plan), planned.load or profile.max_load()
        return cls(profile, requests, planned.families, plan.shorter, load, plan=planned)

    def planned(self, options: PlanningOptions) -> PlannedProfile:
        """Return the structure with a plan."""
        if self.plan is not None:
            return self.plan
        profile = self.profile
        if self.in_gap is not None:
            profile = replace(profile, shared=profile.shared | self.in_gap)
        plan = make_plan(profile, options)
        if self.shorter is not None:
            # A size above the planned one says nothing about lengths.
            plan = replace(plan, shorter=np.minimum(self.shorter, plan.size))
        return PlannedProfile(plan, self.profile, self.family, self.load)


def all_repeat(iterations: Sequence[Iteration], newest: Steady) -> bool:
    """Return whether all iterations since the first of the newest structure made its requests."""
    return newest.kind == "exact" and all(
        index in newest.rows for index in range(newest.reference, len(iterations))
    )


def all_found(
    iterations: Sequence[Iteration], found: Sequence[Steady], known: Sequence[PlannedProfile]
) -> bool:
    """Return whether all iterations since the first of any structure are of one, or planned."""
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
    """Return all plans that there are now, and the number of that of the newest structure.

    Args:
        iterations: that were recorded.
        found: structures that repeat, the newest last, and the profile of each.
        known: plans that there are.
        planning: how to plan.
        keeps_gaps: whether requests that the framework has idle memory for get no slot.

    Returns:
        No plans where no request gets a slot.
    """
    same = all_repeat(iterations, found[-1][1])
    if same and not known:
        found = found[-1:]  # what came before was the beginning, which does not come again
    structures, shown = [Structure.of(planned) for planned in known], 0
    for profile, steady in found:
        requests = iterations[steady.reference]
        newest = Structure(
            profile,
            requests,
            families_of(iterations, steady),
            shorter_of(iterations, steady, profile),
            in_gap=requests.in_gap if same and keeps_gaps else None,
        )
        for one in (*shorter_members(iterations, steady, profile), newest):
            structures, shown = merge(structures, one)
    plans = [structure.planned(planning) for structure in structures]
    # Without an arena: the framework has idle memory for all of it.
    with_arena = [planned for planned in plans if planned.plan.arena]
    newest_plan = plans[shown]
    number = with_arena.index(newest_plan) if newest_plan in with_arena else 0
    return with_arena, number


def is_planned(plans: Sequence[PlannedProfile], reference: Iteration) -> bool:
    """Return whether a plan has all requests of an iteration, at its sizes or larger ones."""
    return any(_covers(planned, reference) for planned in plans)


def _covers(planned: PlannedProfile, iteration: Iteration) -> bool:
    requests = requests_of(planned.plan)
    match = compare(requests, iteration)
    if match.kind == "none":
        return False
    rows = match.rows_in(requests)
    return bool(np.all(rows != UNPAIRED) and np.all(requests.size[rows] >= iteration.size))


def merge(structures: list[Structure], one: Structure) -> tuple[list[Structure], int]:
    """Add a structure to one of the same program at other lengths, or behind the others.

    Returns:
        The new list, and the structure's number in it.
    """
    for number, known in enumerate(structures):
        both = united(known, one)
        if both is not None:
            new = both if np.any(both.profile.turns > 0) else one
            return [*structures[:number], new, *structures[number + 1 :]], number
    return [*structures, one], len(structures)


def united(known: Structure, one: Structure) -> Structure | None:
    """Unite two structures of one program that differ in lengths.

    Returns:
        None where they are different programs, or too much would have slots that is never alive
        together.
    """
    match = compare(known.requests, one.requests)
    if match.kind == "none":
        return None
    rows = match.rows_in(known.requests)
    size = one.requests.size
    if not _is_known_by_length(known.profile.size, size, rows):
        return None
    both = unite(known.profile, one.profile, rows)
    load = max(known.load or known.profile.max_load(), one.profile.max_load())
    if both.max_load() > heuristics.current.union_load * load:
        return None
    before = known.family
    if before is None:
        before = families(known.profile.size, known.profile.stream)
    shorter = known.shorter
    if shorter is None:
        shorter = np.zeros(len(known.profile), np.int64)
    return Structure(
        both,
        requests_of(both),
        united_families(before, rows, size),
        united_shorter(shorter, known.profile.size, rows, size),
        load,
    )


def _is_known_by_length(
    known: NDArray[np.int64], size: NDArray[np.int64], rows: NDArray[np.int64]
) -> bool:
    """Return whether replay would know these requests by those that are known, at another length.

    It would not, where most of what differs does by more than lengths do: one token at a time makes
    the requests that a whole prompt makes.
    """
    paired = rows != UNPAIRED
    before, after = known[rows[paired]], size[paired]
    differs = before != after
    before, after = before[differs], after[differs]
    far = np.maximum(before, after) > heuristics.current.length_ratio * np.minimum(before, after)
    return 2 * int(far.sum()) <= len(far)


def families_of(iterations: Sequence[Iteration], steady: Steady) -> NDArray[np.uint32]:
    """Return the families of a recorded structure: requests that change their sizes together."""
    reference = iterations[steady.reference]
    family = families(reference.size, reference.stream)
    for index in sorted(steady.rows.keys() - steady.shadows):
        family = refine(family, steady.rows[index], iterations[index].size)
    return family


def shorter_of(
    iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> NDArray[np.int64] | None:
    """Return the sizes of a structure's requests in its shortest iteration: see `Plan`."""
    shorter, least = None, int(profile.size.sum())
    for index in sorted(steady.rows.keys() - steady.shadows):
        rows, size = steady.rows[index], iterations[index].size
        paired = rows != UNPAIRED
        total = int(size[paired].sum())
        if total < min(least, int(profile.size[rows[paired]].sum())):
            least, shorter = total, np.zeros(len(profile), np.int64)
            shorter[rows[paired]] = size[paired]
    return shorter


def shorter_members(
    iterations: Sequence[Iteration], steady: Steady, profile: Profile
) -> list[Structure]:
    """Return shorter members of a structure, for which other kernels were chosen.

    Some requests are left out there, and workspaces come that the profile has no room for. Each of
    them is united with it, or gets a plan of its own where the union would be much larger.

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
    made = [Structure(profile_iteration(one, profile, reference), one) for one in largest.values()]
    return [one for one in made if np.any(one.profile.turns > 0)]
