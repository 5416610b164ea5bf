"""Simulation of PyTorch's caching allocator on a profile, without a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import as_column
from pgmo.errors import OptionError, ProfileError
from pgmo.profiler.caching.settings import AllocatorSettings
from pgmo.profiler.profile import NEVER, Profile
from pgmo.units import format_bytes

__all__ = ["AllocatorSettings", "Reserved", "simulate_profile"]


@dataclass(frozen=True, eq=False, repr=False)
class Reserved:
    """Memory that the caching allocator reserves, and how much of it is in use.

    Args:
        reserved: bytes reserved from the driver after each request of the last simulated
            iteration, shape (ticks,), read-only. After a failure, the last value is repeated. Empty
            if this iteration's first request failed.
        active: bytes of blocks in use, including rounding, after the same requests as `reserved`.
        address: latest address of each row of the profile, shape (n,); 0 if never served.
        peak_reserved: largest number of reserved bytes in the whole simulation.
        peak_active: largest number of bytes in use in the whole simulation.
        fragmentation: unused share of the reserved bytes when `reserved` peaks; the smallest share
            if `reserved` has several peaks.
        retries: number of times that cached memory was released to serve a request.
        failed: index of the request that ran out of memory and ended the simulation; or None.
    """

    reserved: NDArray[np.int64]
    active: NDArray[np.int64]
    address: NDArray[np.int64]
    peak_reserved: int
    peak_active: int
    fragmentation: float
    retries: int = 0
    failed: int | None = None

    def __repr__(self) -> str:
        failed = "" if self.failed is None else f", out of memory at request {self.failed}"
        return (
            f"Reserved({format_bytes(self.peak_reserved)} reserved, "
            f"{format_bytes(self.peak_active)} active, {self.fragmentation:.1%} fragmented, "
            f"{self.retries} retries{failed})"
        )

    def __post_init__(self) -> None:
        for name in ("reserved", "active", "address"):
            column = as_column(name, getattr(self, name), np.dtype(np.int64), ProfileError)
            object.__setattr__(self, name, column)


def native_allocator(
    settings: AllocatorSettings | None = None,
    capacity: int | None = None,
    *,
    card: int | None = None,
) -> _core.ModelledAllocator:
    """Create the native model (`csrc/baseline`). Sessions use the same model in running programs.

    Args:
        settings: configuration of the allocator; None = PyTorch's defaults.
        capacity: bytes of the card that the allocator can use; None = no limit.
        card: bytes of the whole card; None = `capacity`. The setting `memory_fraction` and the
            address space of expandable segments are relative to this size.

    Raises:
        OptionError: when the capacity is not above 0.
    """
    if capacity is not None and capacity <= 0:
        raise OptionError(f"capacity is {capacity} bytes; it must be above 0, or None")
    settings = settings or AllocatorSettings()
    made = _core.ModelledAllocator(
        expandable_segments=settings.expandable_segments,
        roundup_power2_divisions=settings.divisions,
        max_split_size=settings.max_split_size or 0,
        max_non_split_rounding=settings.max_non_split_rounding or settings.large_segment_size,
        garbage_collection_threshold=settings.garbage_collection_threshold,
        large_segment_size=settings.large_segment_size,
        capacity=capacity or 0,
        card=card or capacity or 0,
    )
    if settings.memory_fraction is not None:
        made.set_fraction(settings.memory_fraction)
    return made


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
    are freed in a later one. If memory does not run out, the figures usually stay the same after
    two or three iterations. Allocations outside of iterations, such as parameters, are ignored.

    Args:
        profile: the requests of one iteration. A profile that does not repeat runs once.
        settings: configuration of the allocator; None = PyTorch's defaults.
        iterations: number of iterations to simulate.
        capacity: bytes of the card that the profile may use; None = no limit.
        convolution: for each row that is a convolution's workspace, the number of the convolution;
            -1 for other rows; shape (n,), or empty for no workspaces. If a workspace does not fit,
            its convolution runs without a workspace from then on, as in PyTorch.

    Returns:
        Curves of the last iteration, one value for each tick, and peaks of all iterations.

    Raises:
        OptionError: when `iterations` is below 1, or `capacity` is not above 0.

    Example:
        >>> profile = Profile.from_columns(size=[30 << 20] * 2, start=[0, 1], end=[2, 3], ticks=2)
        >>> simulate_profile(profile).reserved.tolist() == [60 << 20] * 2
        True
    """
    if iterations < 1:
        raise OptionError(f"iterations is {iterations}; simulate at least one iteration")
    turns = iterations if profile.circular else 1
    allocator = native_allocator(settings, capacity)
    address = [0] * len(profile)
    figures: list[tuple[int, int]] = []  # Reserved and active bytes after each request.
    failed = _run(profile, turns, allocator, convolution, address, figures)
    served = profile.ticks if failed is None else failed
    last = figures[len(figures) - served :]
    curves = np.array(last + last[-1:] * (profile.ticks - served), np.int64).reshape(-1, 2)
    reserved, active = max(figures, default=(0, 0))
    return Reserved(
        reserved=curves[:, 0],
        active=curves[:, 1],
        address=np.array(address, np.int64),
        peak_reserved=reserved,
        peak_active=max((one for _, one in figures), default=0),
        fragmentation=1 - active / reserved if reserved else 0.0,
        retries=allocator.retries,
        failed=failed,
    )


def _run(
    profile: Profile,
    turns: int,
    allocator: _core.ModelledAllocator,
    convolution: Sequence[int],
    address: list[int],
    figures: list[tuple[int, int]],
) -> int | None:
    """Fill `address` and `figures`. Return the tick of a failed request; None without a failure."""
    requested, freed = _steps(profile)
    size, stream = profile.size.tolist(), profile.stream.tolist()
    persistent = profile.persistent.tolist()
    alive: list[dict[int, int]] = [{} for _ in range(turns)]
    numbers = [int(one) for one in convolution] or [-1] * len(profile)
    without: set[int] = set()
    for turn in range(turns):
        for tick in range(profile.ticks):
            for row, before in freed[tick]:
                if turn >= before and row in alive[turn - before]:
                    allocator.free(alive[turn - before].pop(row))
            for row in requested[tick]:
                if (turn and persistent[row]) or numbers[row] in without:
                    continue
                block, place = allocator.allocate(size[row], stream[row])
                if block >= 0:
                    alive[turn][row] = block
                    address[row] = place
                elif numbers[row] >= 0:
                    without.add(numbers[row])
                else:
                    return tick
            figures.append((allocator.reserved, allocator.active))
    return None


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
