"""Linear profile of a whole recording, for programs without complete iterations."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, STEP, split
from pgmo.profiler.tag import Tag


def linear_profile(
    events: NDArray[np.void],
    tags: Sequence[Tag],
    meta: ProfileMeta | None = None,
) -> Profile | None:
    """Make a profile of a recording that may stop anywhere, for example when memory ran out.

    Args:
        events: array of dtype `EVENT`, shape (events,), in order of occurrence.
        tags: the tags that the events index.
        meta: metadata of the profile.

    Returns:
        A profile that does not repeat, or None without requests. Blocks that were not freed live
        to the end of the profile.

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
    rows = len(recorded)
    return Profile.from_columns(
        size=recorded.size,
        start=np.arange(rows),
        end=np.where(recorded.gone == ALIVE, rows, recorded.gone),
        stream=recorded.stream,
        thread=recorded.thread,
        tag=recorded.tag,
        shared=recorded.shared,
        ticks=rows,
        circular=False,
        steady=False,
        tags=tuple(tags),
        meta=meta or ProfileMeta(),
    )
