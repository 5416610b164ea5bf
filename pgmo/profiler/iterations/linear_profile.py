"""Linear profile of a whole recording, for programs without complete iterations."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.gradient_sums import summed_in_place
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, STEP, split
from pgmo.profiler.tag import Tag


def linear_profile(
    events: NDArray[np.void],
    tags: Sequence[Tag],
    meta: ProfileMeta | None = None,
    *,
    sums: bool = True,
) -> Profile | None:
    """Make a profile of a recording that may stop anywhere, for example when memory ran out.

    Args:
        events: array of dtype `EVENT`, shape (events,), in order of occurrence.
        tags: the tags that the events index.
        meta: metadata of the profile.
        sums: whether to keep requests for gradient sums that tagging has added.

    Returns:
        A profile that does not repeat, or None without requests. Blocks that were not freed live
        to its end.

    Example:
        >>> from pgmo.profiler.recording import make_events
        >>> rows = [("request", 64), ("request", 32), ("free", 0), ("step",), ("request", 8)]
        >>> linear_profile(make_events(rows), ()).end.tolist()
        [2, 3, 3]
    """
    line = np.append(events[events["kind"] != STEP], np.zeros(1, events.dtype))
    line["kind"][-1] = STEP
    (recorded,) = split(line)
    if not len(recorded):
        return None
    kept = np.ones(len(recorded), np.bool_)
    if not sums:
        recorded, added = summed_in_place(recorded, tags)
        kept = ~added
    ticks = np.concatenate(([0], np.cumsum(kept)))  # number of kept requests before each one
    gone = np.where(recorded.gone == ALIVE, len(recorded), recorded.gone)
    return Profile.from_columns(
        size=recorded.size[kept],
        start=np.arange(ticks[-1]),
        end=ticks[gone[kept]],
        stream=recorded.stream[kept],
        thread=recorded.thread[kept],
        tag=recorded.tag[kept],
        shared=recorded.shared[kept],
        ticks=int(ticks[-1]),
        circular=False,
        steady=False,
        tags=tuple(tags),
        meta=meta or ProfileMeta(),
    )
