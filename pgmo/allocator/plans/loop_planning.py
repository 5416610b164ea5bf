"""Planning inside of a training loop, which waits meanwhile."""

import warnings

from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan
from pgmo.packing.spill import least_budget
from pgmo.profiler.profile import Profile
from pgmo.units import format_bytes


def opening_budget(budget: int | None, profile: Profile, alignment: int) -> int | None:
    """The budget of the first iteration: what it leaves behind for good comes on top.

    Later iterations find that there, and it is not counted in them either.

    Example:
        >>> profile = Profile.from_columns(size=[64, 32], start=[0, 1], end=[1, -1], ticks=2)
        >>> opening_budget(100, profile, alignment=1)
        132
    """
    return None if budget is None else budget + least_budget(profile, alignment)


def make_plan(
    profile: Profile,
    *,
    solver: str,
    alignment: int,
    effort: str = "fast",
    budget: int | None = None,
) -> Plan:
    """Plans as `pgmo.plan` does, with little effort unless more is asked for.

    Where a budget cannot be met it warns, and spills everything that has a slot: training goes on.

    Raises:
        KeyboardInterrupt: when Ctrl-C came meanwhile: it was meant for the program, not for the
            search, so the loop has to end.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> make_plan(profile, solver="auto", alignment=64).arena
        64
    """
    if budget is not None and budget < (least := least_budget(profile, alignment)):
        warnings.warn(
            f"pgmo: blocks without a slot need {format_bytes(least)}, more than the budget of "
            f"{format_bytes(budget)}; all others are spilled",
            stacklevel=2,
        )
        budget = least
    made = plan(profile, solver=solver, alignment=alignment, effort=effort, budget=budget)
    if made.interrupted:
        raise KeyboardInterrupt
    return made
