"""Groupings of blocks: module, operator, phase, file, stream, size class."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgmo.errors import OptionError
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event
from pgmo.units import format_bytes

By = Literal["module", "op", "phase", "file", "stream", "size"]

KINDS: tuple[By, ...] = get_args(By)
"""Available groupings."""

UNTAGGED = "(untagged)"
"""Name for the origin of blocks without a tag."""

EARLIER = "(before recording)"
"""Name for the origin of blocks that existed before the recording."""

UNNAMED = frozenset({UNTAGGED, EARLIER})
"""Names without information about an origin."""


def existed_before(profile: Profile) -> NDArray[np.bool_]:
    """Return whether each block existed before the first recorded request, shape (n,).

    In a circular profile, the result is always false, because such profiles do not contain blocks
    from before their trace.
    """
    found = np.zeros(len(profile), np.bool_)
    if profile.circular or profile.trace is None or not profile.trace.before:
        return found
    # These blocks come first, and begin at tick 0 like the first request.
    first = np.flatnonzero(profile.start == 0)
    requests = bool((profile.trace.kind[profile.trace.before :] == Event.ALLOC).any())
    found[first[: len(first) - requests]] = True
    return found


def names_of(profile: Profile, by: By) -> list[str]:
    """Return the name of each block in a grouping; raise OptionError for an unknown grouping."""
    if by == "size":
        return size_classes(profile.size)
    if by == "stream":
        return [f"stream {stream}" for stream in profile.stream.tolist()]
    names = names_of_tags(profile.tags, profile.tag, by)
    for row in np.flatnonzero(existed_before(profile)).tolist():
        if names[row] == UNTAGGED:
            names[row] = EARLIER
    return names


def names_of_tags(tags: Sequence[Tag], tag: NDArray[np.int32], by: By) -> list[str]:
    """Return a name for each entry of `tag`. Raise OptionError for "stream" and "size"."""
    if by not in ("module", "op", "phase", "file"):
        raise OptionError(f"blocks cannot be grouped by {by!r}; choose one of {', '.join(KINDS)}")
    names = [getattr(one, by) or UNTAGGED for one in tags]
    return [names[one] if one >= 0 else UNTAGGED for one in tag.tolist()]


def size_classes(size: ArrayLike) -> list[str]:
    """Return the power-of-two class of each size in bytes, such as "512 B to 1.00 KiB"."""
    power = np.frexp(np.maximum(np.asarray(size, np.float64), 1))[1] - 1
    known = {
        p: f"{format_bytes(2**p)} to {format_bytes(2 ** (p + 1))}" for p in set(power.tolist())
    }
    return [known[p] for p in power.tolist()]


def describe(tag: Tag | None) -> str:
    """Return line of code, module, operator and phase in one line; "(untagged)" if unknown."""
    return str(tag or "") or UNTAGGED
