"""What PyTorch's own allocator would have reserved, by the model of `pgmo.profiler.caching`.

    of_plan         the blocks that have slots, in iterations that repeat
    of_recording    all that was recorded, from the first event to the last

The model is Python and takes some ten microseconds for a request, so what it is given is bounded.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.caching.allocator import CachingAllocator
from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import FREE, REQUEST

if TYPE_CHECKING:
    from pgmo.profiler.caching.pools import Block

MOST_REQUESTS = 100_000
"""Requests that are modelled at most, about a second's worth."""

_TURNS = 3
"""Iterations after which the model's reserved bytes do not change any more."""

_LEAST_TURNS = 2
"""Below that a block that wraps would never be there twice."""


class UnmodelledError(Exception):
    """There is no such figure; the message is the reason, a clause without a full stop."""


def settings_of(
    framework: str, device: str, environment: Mapping[str, str] = os.environ
) -> AllocatorSettings:
    """The settings that plain PyTorch would have had in this process.

    Args:
        framework: "torch" or "cupy".
        device: "cpu", "cuda:0".
        environment: the environment's variables.

    Raises:
        UnmodelledError: where the model is none of the allocator that would have served.

    Example:
        >>> settings_of("torch", "cuda:0", {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"})
        ... # doctest: +ELLIPSIS
        AllocatorSettings(expandable_segments=False, ..., max_split_size=67108864, ...)
    """
    if not device.startswith("cuda"):
        raise UnmodelledError("the CPU has no caching allocator to compare with")
    if framework != "torch":
        raise UnmodelledError("there is no model of CuPy's own pool to compare with")
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    text = ",".join(filter(None, (environment.get(name) for name in names)))
    try:
        return AllocatorSettings.from_text(text)
    except (OptionError, ValueError) as error:
        raise UnmodelledError("there is no model of the allocator's settings here") from error


def of_plan(plan: Plan, settings: AllocatorSettings) -> int:
    """Bytes that the blocks with slots would have held, iteration after iteration.

    What has no slot is left out, as it is in the arena: both figures are about the same blocks.

    Raises:
        UnmodelledError: when an iteration has too many requests.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> profile = Profile.from_columns(size=[1 << 20], start=[0], end=[1], ticks=1)
        >>> of_plan(plan(profile), AllocatorSettings()) >> 20
        2
    """
    rows = np.flatnonzero(plan.offset != UNPLANNED)
    turns = min(_TURNS, MOST_REQUESTS // max(1, len(rows)))
    if turns < _LEAST_TURNS:
        raise UnmodelledError(
            f"an iteration has {len(rows):,} blocks, more than are modelled while one waits"
        )
    profile = Profile.from_columns(
        size=plan.size[rows],
        start=plan.start[rows],
        end=plan.end[rows],
        stream=plan.stream[rows],
        ticks=plan.ticks,
        circular=plan.circular,
    )
    return int(simulate_profile(profile, settings, iterations=turns).peak_reserved)


def of_recording(events: NDArray[np.void], settings: AllocatorSettings) -> int:
    """Bytes that what was recorded would have held at most, of blocks requested since it began.

    Blocks that another stream uses as well count as reusable from their free on, which is less than
    PyTorch would have needed.

    Args:
        events: array of dtype `EVENT`, shape (events,), from the beginning of a recording.
        settings: of the allocator.

    Raises:
        UnmodelledError: when there are too many requests.

    Example:
        >>> from pgmo.profiler.recording import EVENT
        >>> events = np.zeros(2, EVENT)
        >>> events["bytes"] = 30 << 20
        >>> of_recording(events, AllocatorSettings()) >> 20
        60
    """
    requests = int(np.count_nonzero(events["kind"] == REQUEST))
    if requests > MOST_REQUESTS:
        raise UnmodelledError(f"{requests:,} requests are more than are modelled while one waits")
    allocator = CachingAllocator(settings)
    alive: dict[int, Block] = {}
    peak = number = 0
    columns = (events[name].tolist() for name in ("kind", "block", "bytes", "stream"))
    for kind, block, size, stream in zip(*columns, strict=True):
        if kind == REQUEST:
            if size > 0:
                alive[number] = allocator.malloc(size, stream)
                peak = max(peak, allocator.reserved)
            number += 1
        elif kind == FREE and block in alive:
            allocator.free(alive.pop(block))
    return peak
