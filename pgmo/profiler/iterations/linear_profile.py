"""Linear profile of a whole recording, for programs that do not complete iterations."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, STEP, split
from pgmo.profiler.tag import Tag


def linear_profile(
    events: NDArray[np.void], tags: Sequence[Tag], meta: ProfileMeta | None = None
) -> Profile | None:
    """Make a profile of a recording that stopped anywhere, such as when memory ran out.

    Args:
        events: array of dtype `EVENT`, shape (events,), in order of occurrence.
        tags: the tags that the events index.
        meta: metadata of the profile.

    Returns:
        A profile that does not repeat; blocks that were not freed live to its end. None if there
        were no requests.

    Raises:
        ProfileError: when the events contradict each other.

    Example:
        >>> from pgmo.profiler.recording import make_events
        >>> rows = [("request", 64), ("request", 32), ("free", 0), ("step",), ("request", 8)]
        >>> linear_profile(make_events(rows), ()).end.tolist()
        [2, 3, 3]
    """
    end_of_line = np.zeros(1, events.dtype)
    end_of_line["kind"] = STEP
    iterations = split(np.concatenate((events, end_of_line)))
    gone = np.concatenate([one.gone for one in iterations])
    ticks = len(gone)
    if not ticks:
        return None
    return Profile.from_columns(
        size=np.concatenate([one.size for one in iterations]),
        start=np.arange(ticks),
        end=np.where(gone == ALIVE, ticks, gone),
        stream=np.concatenate([one.stream for one in iterations]),
        thread=np.concatenate([one.thread for one in iterations]),
        tag=np.concatenate([one.tag for one in iterations]),
        shared=np.concatenate([one.shared for one in iterations]),
        ticks=ticks,
        circular=False,
        steady=False,
        tags=tuple(tags),
        meta=meta or ProfileMeta(),
    )
