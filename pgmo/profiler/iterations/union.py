"""One profile for two iterations of a program that differ by some requests.

    known   a b c   d e        with a bias
    new     a b   x d e        another kernel, which has a workspace
    both    a b c x d e        each follows it, and leaves some out

An iteration that leaves requests out wastes addresses, no memory. So whatever a program asks for at
one length or another gets one plan, as long as the sum is not much larger than its parts.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import numbered
from pgmo.profiler.iterations.families import refine
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.profile import NEVER, Profile

Item = TypeVar("Item", bound=np.generic)


def unite(known: Profile, new: Profile, rows: NDArray[np.int64], headroom: float = 0.0) -> Profile:
    """A profile with the requests of both, at the larger of both sizes and lifetimes.

    Args:
        known: a recorded structure.
        new: another iteration of the same program.
        rows: for each request of `new` its ordinal in `known` or -1, increasing; shape (len(new),).
        headroom: share by which sizes that have grown are made larger still.

    Example:
        >>> one = Profile.from_columns(size=[8, 4], start=[0, 1], end=[1, 2], ticks=2)
        >>> two = Profile.from_columns(size=[8, 2], start=[0, 1], end=[1, 2], ticks=2)
        >>> both = unite(one, two, np.array([0, -1]))
        >>> both.size.tolist(), both.end.tolist()
        ([8, 4, 2], [2, 3, 3])
    """
    paired = rows != UNPAIRED
    pairs = rows[paired]
    known_place, own_place = _places(len(known), rows)
    ticks = len(known) + int(np.sum(~paired))

    def interleaved(own: NDArray[Item], others: NDArray[Item]) -> NDArray[Item]:
        column = np.empty(ticks, own.dtype)
        column[own_place] = others
        column[known_place] = own
        return column

    size = interleaved(known.size, new.size)
    varying = interleaved(known.varying, new.varying)
    shared = interleaved(known.shared, new.shared)
    grown = np.maximum(new.size[paired] - known.size[pairs], 0)
    larger = (
        known.size[pairs]
        + grown
        + np.where(grown > 0, new.size[paired] * headroom, 0).astype(np.int64)
    )
    size[known_place[pairs]] = larger
    differ = new.size[paired] != known.size[pairs]
    varying[known_place[pairs]] |= new.varying[paired] | differ
    shared[known_place[pairs]] |= new.shared[paired]

    ends = np.full((2, ticks), NEVER)
    ends[0, known_place] = _moved(known.end, known.ticks, known_place, ticks)
    ends[1, own_place] = _moved(new.end, new.ticks, own_place, ticks)
    start = np.arange(ticks)
    end = np.minimum(ends.max(axis=0), start + 2 * ticks)
    order = known.order
    return replace(
        known,
        size=size,
        stream=interleaved(known.stream, new.stream),
        thread=interleaved(known.thread, new.thread),
        tag=interleaved(known.tag, new.tag),
        varying=varying,
        shared=shared,
        start=start,
        ordinal=start,
        end=end,
        address=np.zeros(ticks, np.int64),
        ticks=ticks,
        steady=known.steady and new.steady,
        trace=None,
        order=order and order.moved(known_place, np.append(known_place, ticks)),
    )


def _moved(
    end: NDArray[np.int64], ticks: int, place: NDArray[np.int64], period: int
) -> NDArray[np.int64]:
    """Ends in one iteration as ends in the union, of whose requests `place` are its own."""
    table = np.append(place, period)
    turns, within = np.divmod(end - 1, ticks)
    moved: NDArray[np.int64] = np.where(end == NEVER, NEVER, turns * period + table[within + 1])
    return moved


def united_families(
    family: NDArray[np.uint32], rows: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The families of a union: those of before, told apart by what the new iteration shows.

    Args:
        family: of the known structure's requests.
        rows: as for `unite`.
        size: of the new iteration's requests.
    """
    known_place, own_place = _places(len(family), rows)
    paired = rows != UNPAIRED
    refined = refine(family, rows, size)
    both = np.empty(len(family) + int(np.sum(~paired)), np.uint32)
    both[known_place] = refined
    # New ones are alike among themselves, for all that is known.
    _, kind = numbered(size[~paired])
    both[own_place[~paired]] = kind + int(refined.max(initial=0)) + 1
    return both


def united_shorter(
    shorter: NDArray[np.int64],
    known: NDArray[np.int64],
    rows: NDArray[np.int64],
    size: NDArray[np.int64],
) -> NDArray[np.int64] | None:
    """The sizes of a union's requests in the shortest iteration that is known.

    All of them are of one iteration, so that they tell how sizes change with its length.

    Args:
        shorter: of the known structure's requests so far, 0 where they are not known.
        known: the sizes of the known structure's requests.
        rows: as for `unite`.
        size: of the new iteration's requests.

    Returns:
        Sizes in bytes, 0 where they are not known, shape (requests,); None where no iteration was
        shorter than the longest.

    Example:
        >>> known, rows = np.array([8, 4]), np.array([0, 1])
        >>> united_shorter(np.zeros(2, int), known, rows, np.array([6, 4])).tolist()
        [6, 4]
    """
    paired = rows != UNPAIRED
    pairs = rows[paired]
    known_place, _ = _places(len(known), rows)
    common = known_place[pairs]
    column = np.zeros(len(known) + int(np.sum(~paired)), np.int64)
    totals = [int(known[pairs].sum()), int(size[paired].sum())]
    least = min(totals)
    if np.any(shorter) and int(shorter[pairs].sum()) <= least:
        column[known_place] = shorter
    elif totals[0] == totals[1]:
        return None
    else:
        column[common] = known[pairs] if totals[0] == least else size[paired]
    return column


def _places(known: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the requests of both are in the union; new ones come before the next that both have."""
    paired = rows != UNPAIRED
    following = np.minimum.accumulate(np.where(paired, rows, known)[::-1])[::-1]
    added = np.flatnonzero(~paired)
    ordinal = np.arange(known)
    known_place = ordinal + np.searchsorted(following[added], ordinal, "right")
    own_place = np.empty(len(rows), np.int64)
    own_place[paired] = known_place[rows[paired]]
    own_place[added] = following[added] + np.arange(len(added))
    return known_place, own_place
