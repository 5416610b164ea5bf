"""Planning while the training loop waits."""

from dataclasses import replace

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.layout import extents
from pgmo.columns import distinct
from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan_profile
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile
from pgmo.units import format_bytes
from pgmo.user_warnings import warn_user


def make_plan(profile: Profile, options: PlanningOptions) -> Plan:
    """Make a plan like `pgmo.plan`. If packers waste memory on several streams, search longer.

    If the budget is impossible, warn and spill all blocks with a slot, so that training continues.

    Raises:
        KeyboardInterrupt: if Ctrl-C was pressed during planning.
    """
    budget = options.budget_bytes
    if budget is not None:
        from pgmo.packing.spill import least_budget

        alignment = profile.alignment if options.alignment is None else options.alignment
        least = least_budget(profile, alignment)
        if budget < least:
            warn_user(
                f"pgmo: blocks without a slot need {format_bytes(least)}, more than the budget of "
                f"{format_bytes(budget)}; all other blocks are spilled"
            )
            options = replace(options, budget=least)

    made = plan_profile(profile, options)
    if _is_worth_a_search(made, options):
        longer = replace(options, effort="balanced", time_limit=heuristics.current.search_seconds)
        made = plan_profile(profile, longer)
    if made.interrupted:
        raise KeyboardInterrupt
    return made


def _is_worth_a_search(made: Plan, options: PlanningOptions) -> bool:
    """Return whether a plan has several streams and exceeds their loads by over `spare_share`."""
    if not np.any(made.stream != made.stream[:1]):
        return False
    arenas = sum(high - low for low, high in extents(made).values())
    return arenas > (1 + heuristics.current.spare_share) * _loads(made)


def _loads(made: Plan) -> int:
    """Return the sum of the streams' max loads in bytes, a lower bound on every plan."""
    profile, total = made.profile(), 0
    for stream in distinct(profile.stream[profile.turns > 0]):
        alone = replace(profile, shared=profile.shared | (profile.stream != stream))
        total += alone.max_load(made.alignment)
    return total
