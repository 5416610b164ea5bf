"""How the requests of several profiles of one program correspond, and whether they do.

batch=2   a b   c       w: a workspace that is asked for at some sizes only
batch=4   A B   C
batch=8   A B w C       the reference: what is predicted has its requests, some of them optional
batch=8   X B Y Z       refused: another program, from request 0 on
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import ProfileError
from pgmo.profiler.extrapolation.same_requests import ABSENT, Counterparts, counterparts, origins
from pgmo.profiler.extrapolation.size_laws import Point
from pgmo.profiler.profile import NEVER, Profile
from pgmo.units import format_bytes

_COUNT, _BYTES = 0.1, 0.3
"""Shares of the requests, and of the bytes of either profile, that may have no counterpart.

Kernels that take other workspaces are at most 0.4 % of the requests of the demo networks on a CPU,
between batches of 2 and 64; 3 % of the requests and 21 % of the bytes of a very small GPT on CUDA,
whose sums over the batch get buffers from 16 on. Another network differs by a third of both.
"""

_STATE = 0.04
"""The same of the requests that stay for good: in the iteration in which an optimizer's state is
born these are about a tenth, and later ones have none."""

_ALIKE = 0.9
"""Share of origins that agree, or of lifetimes where no origins are known."""


def correspond(
    profiles: Sequence[Profile], points: Sequence[Point], names: Sequence[str]
) -> list[Counterparts]:
    """Pairs the requests of the last profile with those of each one.

    Args:
        profiles: one or more.
        points: values of the parameters in each.
        names: what to call them, such as "batch=2".

    Raises:
        ProfileError: when too much has no counterpart, with the number, sizes and origins of the
            first request that differs.

    Example:
        >>> one = Profile.from_columns(size=[8, 4], start=[0, 1], end=[1, 2], ticks=2)
        >>> two = Profile.from_columns(size=[16], start=[0], end=[1], ticks=1)
        >>> correspond([one, one], [(2,), (4,)], ["batch=2", "batch=4"])[0].row.tolist()
        [0, 1]
        >>> correspond([one, two], [(2,), (4,)], ["batch=2", "batch=4"])
        Traceback (most recent call last):
        pgmo.errors.ProfileError: the profiles do not align: ...
    """
    last, place, last_name = profiles[-1], points[-1], names[-1]
    found = []
    for profile, point, name in zip(profiles, points, names, strict=True):
        pairs = counterparts(last, place, profile, point)
        trouble = _trouble(last, profile, pairs)
        if trouble:
            at = _first_difference(last, profile, pairs)
            raise ProfileError(
                f"the profiles do not align: {name} has {len(profile)} requests, {last_name} has "
                f"{len(last)}, and {trouble}; the first that differs is request {at}: "
                f"{_request(profile, at)} at {name}, {_request(last, at)} at {last_name}. "
                "Record the same loop each time; where kernels change at small sizes, record at "
                "larger ones, closer together"
            )
        if profile.circular != last.circular or profile.meta.device != last.meta.device:
            raise ProfileError(
                f"{name} and {last_name} are profiles of different kinds "
                f"({_sort(profile)}, {_sort(last)}); record both in the same way"
            )
        found.append(pairs)
    return found


def extra_rows(other: Profile, pairs: Counterparts) -> NDArray[np.bool_]:
    """The rows of the other profile that the reference lacks, shape (len(other),).

    Example:
        >>> profile = Profile.from_columns(size=[8, 4], start=[0, 1], end=[1, 2], ticks=2)
        >>> extra_rows(profile, counterparts(profile, (2,), profile, (2,))).tolist()
        [False, False]
    """
    extra = np.ones(len(other), np.bool_)
    extra[pairs.row[pairs.row != ABSENT]] = False
    return extra


def _trouble(reference: Profile, other: Profile, pairs: Counterparts) -> str:
    """Why these are two programs; nothing if they are one."""
    absent, extra = pairs.row == ABSENT, extra_rows(other, pairs)
    lone, total = int(absent.sum() + extra.sum()), len(reference) + len(other)
    share = max(_share(reference.size, absent), _share(other.size, extra))
    if lone > _COUNT * total or share > _BYTES:
        return (
            f"{lone / total:.0%} of the requests of both, and {share:.0%} of the bytes, have no "
            "counterpart"
        )
    state = int((absent & reference.persistent).sum() + (extra & other.persistent).sum())
    if state > _STATE * total:
        return f"{state} that stay for good are in one of them only, as in a first iteration"
    known = sum(origin is not None for origin in origins(reference))
    if pairs.confused.sum() > (1 - _ALIKE) * known:
        return f"{int(pairs.confused.sum())} come from elsewhere"
    if not known and not absent.all():
        there, here = pairs.ends(other)[~absent], reference.end[~absent]
        off = np.where((there == NEVER) | (here == NEVER), there != here, abs(there - here) > lone)
        if np.mean(off) > 1 - _ALIKE:
            return f"{int(off.sum())} live for another time"
    return ""


def _share(size: NDArray[np.int64], chosen: NDArray[np.bool_]) -> float:
    return float(size[chosen].sum() / max(1, size.sum()))


def _first_difference(reference: Profile, other: Profile, pairs: Counterparts) -> int:
    shared = min(len(reference), len(other))
    differ = (pairs.row[:shared] != np.arange(shared)) | pairs.confused[:shared]
    if not differ.any() and len(reference) == len(other):
        differ = pairs.ends(other) != reference.end
    found = np.flatnonzero(differ)
    return int(found[0]) if found.size else shared


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
