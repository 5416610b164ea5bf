"""What a program names to begin with: a saved plan, or a profile that is planned here."""

import os
from dataclasses import replace

from pgmo.allocator.plans.loop_planning import for_opening, make_plan
from pgmo.allocator.plans.plan_set import check_replayable
from pgmo.allocator.plans.store import find_profile
from pgmo.allocator.session.options import Options
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile


def load_given(options: Options, alignment: int) -> tuple[Plan, Profile | None] | None:
    """Finds the plan to begin with, checked, and its profile where that is known.

    Args:
        options: of the session.
        alignment: of the framework's blocks, in bytes.

    Returns:
        None where there is nothing to begin with: the session records.

    Raises:
        FileError: when a file cannot be read.
        PlanError: when the plan, or that of the profile, cannot be replayed.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> load_given(Options(profile=profile), alignment=64)[0].arena
        64
    """
    profile: Profile | None
    if options.plan is not None:
        plan = options.plan if isinstance(options.plan, Plan) else Plan.load(options.plan)
        profile = find_profile(options.plan, plan)
    elif options.profile is not None:
        profile = _profile(options.profile)
        planning = options.planning(alignment)
        plan = make_plan(profile, planning)
        if options.opening is not None:
            first = _profile(options.opening)
            opening = make_plan(first, for_opening(planning, first))
            plan = replace(plan, opening=opening)
    else:
        return None
    for one in (plan, *plan.others):
        check_replayable(one, alignment)
    return plan, profile


def _profile(given: Profile | str | os.PathLike[str]) -> Profile:
    return given if isinstance(given, Profile) else Profile.load(given)
