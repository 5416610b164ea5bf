"""More steps of a job than its history has, for allocators that take some to settle.

history   |- step 1 -|- step 2 -|- step 3 -|
repeated  |- step 1 -|- step 2 -|- step 3 -|- step 3 -|- step 3 -| ...

On a card that is nearly full PyTorch's allocator may run out of memory in a later step than the
third: by then cached blocks lie where they do not fit.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import NEVER, Profile


def repeated(
    profile: Profile, begins: tuple[int, int], times: int
) -> tuple[Profile, NDArray[np.intp]]:
    """The history with its last step again and again.

    Args:
        profile: of three steps, in a line.
        begins: ticks at which the second and the third one begin.
        times: how often the third one comes again.

    Returns:
        The longer profile, and of which row each of its rows is a copy, shape (n,). It is the
        profile itself where its second and third step are not alike.
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
    # What the third step has not freed yet goes when it went in the second.
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
    """Whether two steps ask for the same."""
    return (
        len(before) == len(last)
        and all(np.array_equal(one[before], one[last]) for one in (profile.size, profile.stream))
        and np.array_equal(profile.start[before] + length, profile.start[last])
    )
