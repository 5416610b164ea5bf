"""The plan that a program names to begin with."""

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
        PlanError: when the plan cannot be replayed.

    Example:
        >>> load_given(Options(), alignment=64)
    """
    if options.plan is None:
        return None
    plan = options.plan if isinstance(options.plan, Plan) else Plan.load(options.plan)
    for one in (plan, *plan.others):
        check_replayable(one, alignment)
    return plan, find_profile(options.plan, plan)
