"""Whether profiles of one program at several sizes have the same requests in the same order.

batch=2   a b w c      w: asked for by the same operator in both
batch=4   A B W C      pairs by number; only sizes differ
batch=8   A B C        refused: another kernel was chosen, from request 2 on
"""

from collections.abc import Sequence

import numpy as np

from pgmo.errors import ProfileError
from pgmo.profiler.alignment import align
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import ALIVE, Iteration
from pgmo.units import format_bytes

_ALIKE = 0.9
"""Share of origins that agree, or of lifetimes where no origins are known."""


def check_correspondence(profiles: Sequence[Profile], names: Sequence[str]) -> None:
    """Refuses profiles whose requests do not correspond one to one.

    Args:
        profiles: two or more; all are compared with the first.
        names: what to call them, such as "batch=2".

    Raises:
        ProfileError: with the number, sizes and origins of the first request that differs.

    Example:
        >>> one = Profile.from_columns(size=[8, 4], start=[0, 1], end=[1, 2], ticks=2)
        >>> two = Profile.from_columns(size=[16], start=[0], end=[1], ticks=1)
        >>> check_correspondence([one, one], ["batch=2", "batch=4"])
        >>> check_correspondence([one, two], ["batch=2", "batch=4"])
        Traceback (most recent call last):
        pgmo.errors.ProfileError: the profiles do not align: ...
    """
    first = profiles[0]
    for profile, name in zip(profiles[1:], names[1:], strict=True):
        at = _first_difference(first, profile)
        if at is not None:
            raise ProfileError(
                f"the profiles do not align: {names[0]} has {len(first)} requests, {name} has "
                f"{len(profile)}; the first that differs is request {at}: "
                f"{_request(first, at)} at {names[0]}, {_request(profile, at)} at {name}. "
                "Kernels may need other workspaces at small sizes: record at larger ones, "
                "closer together"
            )
        if profile.circular != first.circular or profile.meta.device != first.meta.device:
            raise ProfileError(
                f"{names[0]} and {name} are profiles of different kinds "
                f"({_sort(first)}, {_sort(profile)}); record both in the same way"
            )


def origins(profile: Profile) -> list[tuple[str, str, str] | None]:
    """Module, operator and phase of each row; None where they are not known.

    Example:
        >>> origins(Profile.from_columns(size=[8], start=[0], end=[1], ticks=1))
        [None]
    """
    keys = [(tag.module, tag.op, tag.phase) for tag in profile.tags]
    return [keys[tag] if tag >= 0 else None for tag in profile.tag.tolist()]


def _first_difference(first: Profile, other: Profile) -> int | None:
    shared = min(len(first), len(other))
    same_length = len(first) == len(other) and first.ticks == other.ticks
    differ = (first.stream[:shared] != other.stream[:shared]) | (
        first.ordinal[:shared] != other.ordinal[:shared]
    )
    pairs = list(zip(origins(first), origins(other), strict=False))
    known = sum(a is not None and b is not None for a, b in pairs)
    others = np.array([a != b for a, b in pairs if a is not None and b is not None], np.bool_)
    strange = np.zeros(shared, np.bool_)
    strange[[a is not None and b is not None for a, b in pairs]] = others
    ends = first.end[:shared] != other.end[:shared]
    if not same_length or others.sum() > (1 - _ALIKE) * known:
        differ |= strange
    else:
        # Origins come from an iteration that was slowed down to see them, and now and then
        # neighbours are confused there. Another request lives differently, too.
        differ |= strange & ends
    if not known and not differ.any():
        if not same_length:
            rows = align(_requests(first), _requests(other))
            differ = rows[:shared] != np.arange(shared)
        elif len(first) and ends.mean() > 1 - _ALIKE:
            differ = ends
    found = np.flatnonzero(differ)
    if found.size:
        return int(found[0])
    return None if same_length else shared


def _requests(profile: Profile) -> Iteration:
    gone = np.full(len(profile), ALIVE, np.int64)
    columns = (profile.size, profile.stream, profile.thread, profile.tag, gone, profile.shared)
    return Iteration(-1, 0, *columns)


def _request(profile: Profile, at: int) -> str:
    if at >= len(profile):
        return "none"
    tag = int(profile.tag[at])
    known = profile.tags[tag] if tag >= 0 else None
    parts = (known.module, known.op, known.file) if known else ()
    origin = ", ".join(part for part in parts if part)
    return f"{format_bytes(int(profile.size[at]))} (from {origin or 'an unknown origin'})"


def _sort(profile: Profile) -> str:
    kind = "an iteration" if profile.circular else "no iteration"
    return f"{kind} on {profile.meta.device or 'an unknown device'}"
