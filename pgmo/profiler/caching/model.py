"""Simulation of PyTorch's caching allocator on a profile, without a GPU."""

from collections.abc import Sequence

import numpy as np

from pgmo.errors import OptionError
from pgmo.profiler.caching.curves import Curves, Reserved
from pgmo.profiler.caching.native import native_allocator
from pgmo.profiler.caching.settings import AllocatorSettings
from pgmo.profiler.profile import NEVER, Profile

__all__ = ["AllocatorSettings", "Reserved", "simulate_profile"]


def simulate_profile(
    profile: Profile,
    settings: AllocatorSettings | None = None,
    *,
    iterations: int = 3,
    capacity: int | None = None,
    convolution: Sequence[int] = (),
) -> Reserved:
    """Run the iteration of a profile several times under a model of PyTorch's allocator.

    Persistent blocks are requested once, in the first iteration. Blocks that outlive an iteration
    are freed in the next one. If memory does not run out, the figures stay the same after two or
    three iterations. Allocations outside of iterations, such as parameters, are not simulated.

    Args:
        profile: the requests of one iteration. A profile that does not repeat runs once.
        settings: configuration of the allocator; None = PyTorch's defaults.
        iterations: number of iterations to simulate.
        capacity: bytes of the card that the profile may use; None = no limit.
        convolution: for each row that is a convolution's workspace, the number of the convolution;
            -1 for other rows; shape (n,), or empty for no workspaces. If a workspace does not fit,
            its convolution runs without a workspace from then on, as in PyTorch.

    Returns:
        Curves of the last iteration, one value for each tick.

    Raises:
        OptionError: when `iterations` is below 1, or `capacity` is not above 0.

    Example:
        >>> profile = Profile.from_columns(size=[30 << 20] * 2, start=[0, 1], end=[2, 3], ticks=2)
        >>> simulate_profile(profile).reserved.tolist() == [60 << 20] * 2
        True
    """
    if iterations < 1:
        raise OptionError(f"iterations is {iterations}; simulate at least one iteration")
    allocator = native_allocator(settings, capacity)
    curves = Curves(allocator)
    turns = iterations if profile.circular else 1
    requested, freed = _steps(profile)
    size, stream = profile.size.tolist(), profile.stream.tolist()
    persistent = profile.persistent.tolist()
    alive: list[dict[int, int]] = [{} for _ in range(turns)]
    address = [0] * len(profile)
    numbers = [int(one) for one in convolution] or [-1] * len(profile)
    without: set[int] = set()
    for turn in range(turns):
        curves.begin()
        for tick in range(profile.ticks):
            for row, before in freed[tick]:
                if turn >= before and row in alive[turn - before]:
                    allocator.free(alive[turn - before].pop(row))
            for row in requested[tick]:
                if (turn and persistent[row]) or numbers[row] in without:
                    continue
                block, place = allocator.allocate(size[row], stream[row])
                if block < 0 and numbers[row] >= 0:
                    without.add(numbers[row])
                    continue
                if block < 0:
                    return curves.result(profile.ticks, address, tick)
                alive[turn][row] = block
                address[row] = place
            curves.served()
    return curves.result(profile.ticks, address)


def _steps(profile: Profile) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
    """Return the rows requested at each tick, and the rows freed before each tick with their age.

    The age is the number of iterations since the request.
    """
    requested: list[list[int]] = [[] for _ in range(profile.ticks)]
    freed: list[list[tuple[int, int]]] = [[] for _ in range(profile.ticks)]
    start, end = profile.start.tolist(), profile.end.tolist()
    for row in np.argsort(profile.start, kind="stable").tolist():
        requested[start[row]].append(row)
        if end[row] != NEVER:
            before, tick = divmod(end[row], profile.ticks)
            freed[tick].append((row, before))
    return requested, freed
