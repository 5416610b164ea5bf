"""The opening: a program's first iteration, in which its optimizer state is born.

    iteration    0               1           2           3
    requests     a b s c t       a b c       a b c       a b c      s, t: born here, never again
    opening      [0 ----- 5)
    block b        [=)                                              dies in the iteration
    block c            [===========)                                dies in the next: wrapping
    block s          [=======================================...    nothing frees it: persistent

Later iterations lack the first one's extra requests, so their plan does not fit it: a plan made
from the opening serves it, once, and knows in advance which of its blocks stay for good.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgmo.profiler.iterations.lifetimes import (
    Steady,
    build_profile,
    check_belongs,
    lend_tags,
    tags_of,
)
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, Iteration
from pgmo.profiler.tag import Tag

_FOLLOWERS = 2
"""Later iterations that show what is freed: a block of the first may live through the second."""


def build_opening(
    iterations: list[Iteration],
    steady: Steady,
    tags: Sequence[Tag] = (),
    meta: ProfileMeta | None = None,
) -> Profile | None:
    """Makes a profile of the first recorded iteration, as it was.

    Its lifetimes are those observed over the iterations that followed: time passes in the members
    of `steady`, whose requests are placed by their counterparts in the opening. A block that
    nothing frees while they were recorded is persistent: optimizer state, workspaces. One that is
    freed after more than two periods ends at two, the longest life that a profile can tell. The
    profile is circular, as all are that can be replayed.

    Args:
        iterations: all that were recorded, from `split`; the first is the program's first, too.
        steady: what the program does after its first iteration.
        tags: what the tags of the iterations index; the opening borrows them from a later one.
        meta: goes into the profile.

    Returns:
        None when there is nothing to tell: the first iteration has no requests or was recorded
        with tags (which adds requests of its own), it is a member of `steady`, whose plan serves
        it then, or fewer than two members follow it.

    Raises:
        ProfileError: when `steady` does not belong to `iterations`.
    """
    check_belongs(steady, iterations)
    followers = sorted(index for index in steady.rows if index > 0)
    first = iterations[0]
    if not len(first) or np.any(first.tag >= 0) or 0 in steady.rows or len(followers) < _FOLLOWERS:
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
    # Later iterations are more like the one with tags than the first is.
    tag, paired = np.full(len(first), -1, np.int32), place != UNPAIRED
    tag[place[paired]] = tags_of(iterations, steady, profile.end)[paired]
    return replace(profile, end=end, tag=lend_tags(tag))
