"""Profile of the opening: a program's first iteration, which allocates the optimizer state.

    iteration    0               1           2           3
    requests     a b s c t       a b c       a b c       a b c      s, t: requested only here
    opening      [0 ----- 5)
    block b        [=)                                              freed in the iteration
    block c            [===========)                                freed in the next: wrapping
    block s          [=======================================...    never freed: persistent

Later iterations lack the extra requests of the first iteration, so their plan does not fit the
first. A plan made from the opening serves the first iteration of the next run. The opening also
shows which blocks persist.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgmo.profiler.iterations.lifetimes import (
    Steady,
    build_profile,
)
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, Iteration
from pgmo.profiler.tag import Tag

_FOLLOWERS = 2
"""Minimum number of later iterations of one structure. With fewer, there is no opening profile,
because a block of the first iteration may live through the second iteration."""


def build_opening(
    iterations: list[Iteration],
    steady: Steady,
    tags: Sequence[Tag] = (),
    meta: ProfileMeta | None = None,
) -> Profile | None:
    """Make a profile of the first recorded iteration with its own sizes.

    Members of `steady` show when blocks that outlive the first iteration are freed. A block that is
    never freed is persistent, such as optimizer state. If a block is freed after more than two
    periods, its lifetime is two periods, the longest in a profile.

    Returns:
        The profile, or None if the first iteration has no requests, or if fewer than two members
        follow. None also if the first iteration is a member: the plan of `steady` serves it.
    """
    followers = sorted(index for index in steady.rows if index > 0)
    first = iterations[0]
    if not len(first) or 0 in steady.rows or len(followers) < _FOLLOWERS:
        return None
    place = align(first, iterations[steady.reference])
    rows = {0: np.arange(len(first))}
    for index in followers:
        own = steady.rows[index]
        rows[index] = np.where(own == UNPAIRED, UNPAIRED, place[own])
    opening = Steady(
        kind="exact",
        reference=0,
        rows=rows,
        varying=np.zeros(len(first), np.bool_),
        followers=len(iterations) - 1,
        explanation="the first iteration",
    )
    profile = build_profile(iterations, opening, tags, meta, alone=True)
    late = profile.persistent & (first.gone != ALIVE)
    end = np.where(late, profile.start + 2 * profile.ticks, profile.end)
    return replace(profile, end=end)
