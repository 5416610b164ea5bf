"""The requests of a plan or a profile, in the form of a recorded iteration."""

import numpy as np

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import ALIVE, Iteration


def requests_of(plan: Plan | Profile) -> Iteration:
    """Return the requests of a plan or a profile, to compare iterations with.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> from pgmo.profiler.profile import Profile
        >>> one = plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        >>> requests_of(one).size.tolist()
        [64]
    """
    rows = len(plan)
    return Iteration(
        index=-1,
        first=0,
        size=plan.size,
        stream=plan.stream,
        thread=np.zeros(rows, np.uint32),
        tag=np.full(rows, -1, np.int32),
        gone=np.full(rows, ALIVE, np.int64),
        shared=plan.shared,
        in_gap=np.zeros(rows, np.bool_),
    )
