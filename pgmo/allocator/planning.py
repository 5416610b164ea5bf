"""Planning inside of a training loop, which waits meanwhile."""

from pgmo.packing.plan import Plan
from pgmo.packing.portfolio import plan
from pgmo.profiler.profile import Profile


def make_plan(profile: Profile, *, solver: str, alignment: int, effort: str = "fast") -> Plan:
    """Plans as `pgmo.plan` does, with little effort unless more is asked for.

    Raises:
        KeyboardInterrupt: when Ctrl-C came meanwhile: it was meant for the program, not for the
            search, so the loop has to end.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> make_plan(profile, solver="auto", alignment=64).arena
        64
    """
    made = plan(profile, solver=solver, alignment=alignment, effort=effort)
    if made.interrupted:
        raise KeyboardInterrupt
    return made
