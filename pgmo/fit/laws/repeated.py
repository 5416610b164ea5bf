"""History with repeated steps, because allocators need several steps to settle.

history   |- step 1 -|- step 2 -|- step 3 -|
repeated  |- step 1 -|- step 2 -|- step 3 -|- step 3 -|- step 3 -| ...

On a nearly full card PyTorch's allocator may run out of memory after the third step, because new
blocks do not fit beside cached blocks.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import NEVER, Profile


def repeated(
    profile: Profile, begins: tuple[int, int], times: int
) -> tuple[Profile, NDArray[np.intp]]:
    """Return a history with copies of its third step, and the original of each row, shape (n,).

    The history has three steps; `begins` has the ticks at which the second and the third begin. If
    the second and the third step make different requests, the history is returned unchanged.
    """
    second, third = begins
    ticks = profile.ticks
    length = ticks - third
    same = np.arange(len(profile))
    order = np.argsort(profile.start, kind="stable")
    start = profile.start[order]
    before = order[(start >= second) & (start < third)]
    last = order[start >= third]
    if third - second != length or not _alike(profile, before, last, length):
        return profile, same
    until = ticks + times * length
    open_end = (profile.end == NEVER) | (profile.end >= ticks)
    end = np.where(open_end, until, profile.end)
    # A block that the third step has not freed gets its lifetime from the second step.
    life = np.where(open_end[before], until, profile.end[before] - profile.start[before])
    turns = np.arange(1, times + 1) * length
    starts = (profile.start[last][None, :] + turns[:, None]).ravel()
    end[last] = np.minimum(profile.start[last] + life, until)
    rows = np.concatenate([same, np.tile(last, times)])
    longer = Profile.from_columns(
        size=profile.size[rows],
        start=np.concatenate([profile.start, starts]),
        end=np.concatenate([end, np.minimum(starts + np.tile(life, times), until)]),
        ticks=until,
        stream=profile.stream[rows],
        circular=False,
        steady=False,
    )
    return replace(longer, meta=profile.meta), rows


def _alike(profile: Profile, before: NDArray[np.intp], last: NDArray[np.intp], length: int) -> bool:
    """Return whether two steps make the same requests."""
    return (
        len(before) == len(last)
        and all(np.array_equal(one[before], one[last]) for one in (profile.size, profile.stream))
        and np.array_equal(profile.start[before] + length, profile.start[last])
    )
