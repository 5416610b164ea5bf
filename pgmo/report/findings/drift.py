"""Differences between iterations."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace


@dataclass(frozen=True)
class Drift:
    """Differences between a profile's iterations.

    Args:
        compared: number of iterations that were compared with the previous iteration. The last
            iteration is excluded, because it may be incomplete.
        changed: number of compared iterations that differ from the previous iteration.
        varying: number of blocks whose size differs between recorded iterations.
        varying_size: sum of the largest sizes of the varying blocks, in bytes.
    """

    compared: int
    changed: int
    varying: int
    varying_size: int


def find_drift(profile: Profile) -> Drift:
    """Count varying blocks, and compare the iterations of the profile's trace, if it has one."""
    differ = [] if profile.trace is None else _differ(profile.trace)
    return Drift(
        compared=len(differ),
        changed=sum(differ),
        varying=int(profile.varying.sum()),
        varying_size=int(profile.size[profile.varying].sum()),
    )


def _differ(trace: Trace) -> list[bool]:
    """Return whether each iteration between first and last differs from the previous one."""
    bounds = np.searchsorted(trace.blocks.iteration, range(trace.iterations))
    stream = trace.stream[trace.blocks.row]
    requests = [
        (trace.blocks.size[low:high].tobytes(), stream[low:high].tobytes())
        for low, high in pairwise(bounds.tolist())
    ]
    return [before != after for before, after in pairwise(requests)]
