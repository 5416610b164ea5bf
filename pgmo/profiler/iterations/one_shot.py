"""A profile from one iteration of a structure that was never seen before.

    known     a b c G H | a b c G H        G, H: gradients; freed in the next iteration
    new       a x   G H | ...              what is alive at its end lives as long as its
                                           counterpart in the known structure does

Two iterations at least are recorded to begin with, for the second shows what the first one leaves
alive. Later, when a program comes to another sequence length and asks for other blocks, the
structures that are known already tell that, so it can be planned at once.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.recording import ALIVE, Iteration


def profile_iteration(
    iteration: Iteration,
    known: Profile,
    requests: Iteration,
    rows: NDArray[np.int64] | None = None,
) -> Profile:
    """Makes a profile of one iteration.

    Args:
        iteration: what was recorded; frees in later iterations are not looked at.
        known: a profile of the same program at another shape, of `requests`.
        requests: the requests of `known`.
        rows: for each request of the iteration its ordinal among those or -1, shape
            (len(iteration),), where they have been aligned.

    Returns:
        A profile in which a block that is alive at the end and has no counterpart that wraps is
        persistent: it is not planned. Where the counterpart is not persistent, too, that is only
        for want of knowledge, and the profile is not steady.

    Example:
        >>> from pgmo.profiler.recording import make_events, split
        >>> rows = [("request", 64), ("request", 32), ("free", 0), ("step",)]
        >>> (requests,) = split(make_events(rows))
        >>> known = Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=2)
        >>> rows = [("request", 64), ("request", 8), ("free", 1), ("request", 32), ("free", 0)]
        >>> (new,) = split(make_events([*rows, ("step",)]))
        >>> profile_iteration(new, known, requests).end.tolist()
        [3, 2, 5]
    """
    ticks = len(iteration)
    rows = align(requests, iteration) if rows is None else rows
    own = iteration.gone - iteration.first
    alive = (iteration.gone == ALIVE) | (own > ticks)
    end = np.where(alive, NEVER, own)
    wraps = known.end >= known.ticks  # or they are freed before the next iteration's first request
    waiting = np.flatnonzero(alive & (rows != UNPAIRED))
    alike = np.full(ticks, UNPAIRED)
    alike[waiting] = np.where(wraps[rows[waiting]], rows[waiting], UNPAIRED)
    lasting = np.zeros(ticks, np.bool_)
    lasting[waiting] = (known.end[rows[waiting]] == NEVER) & known.steady
    # The counterpart of one that lived beyond the last request that has one is that block itself,
    # freed at the end of its iteration.
    paired = np.flatnonzero(rows != UNPAIRED)
    to_the_end = alive[paired] | (own[paired] > paired.max(initial=-1))
    met = paired[to_the_end & (iteration.size[paired] == known.size[rows[paired]])]
    free = wraps.copy()
    free[rows[met]] = False
    _pair_by_size(iteration, alive & ~lasting, alike, known, free)
    found = alike != UNPAIRED
    end[found] = _carried_over(known.end[alike[found]], known.ticks, rows, ticks)
    explained = ~alive | iteration.shared | lasting | found
    ordinal = np.arange(ticks)
    varying = np.zeros(ticks, np.bool_)
    paired = rows != UNPAIRED
    row = rows[paired]
    varying[paired] = known.varying[row] | (known.size[row] != iteration.size[paired])
    tag = np.full(ticks, -1, np.int32)
    tag[paired] = known.tag[row]
    return Profile(
        size=iteration.size,
        start=ordinal,
        end=np.minimum(end, ordinal + 2 * ticks),
        stream=iteration.stream,
        thread=iteration.thread,
        tag=tag,
        ordinal=ordinal,
        varying=varying,
        shared=iteration.shared,
        address=np.zeros(ticks, np.int64),
        ticks=ticks,
        circular=True,
        steady=bool(np.all(explained)),
        tags=known.tags,
        meta=known.meta,
    )


def _pair_by_size(
    iteration: Iteration,
    alive: NDArray[np.bool_],
    alike: NDArray[np.int64],
    known: Profile,
    free: NDArray[np.bool_],
) -> None:
    """Finds counterparts for blocks alive at the end whose requests have none that wraps.

    Of many alike requests another one may be the last of its kind: of the sums in which a gradient
    is accumulated over time steps, for one. Gradients have the same sizes at every length.

    Args:
        iteration: the new one.
        alive: its blocks that are alive at its end and not known to last.
        alike: their counterparts, which is completed here.
        known: the known structure.
        free: its blocks that the next iteration frees, without those that have a counterpart here.
    """
    waiting: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(free)[::-1]:
        waiting.setdefault((int(known.size[row]), int(known.stream[row])), []).append(int(row))
    for own in np.flatnonzero(alive & (alike == UNPAIRED)):
        rows = waiting.get((int(iteration.size[own]), int(iteration.stream[own])))
        if rows:
            alike[own] = rows.pop()


def _carried_over(
    end: NDArray[np.int64], period: int, rows: NDArray[np.int64], ticks: int
) -> NDArray[np.int64]:
    """Ends beyond one period, of a structure with other requests, as ends here."""
    # For each of their ordinals the first request here that is its counterpart or a later one's.
    position = np.full(period + 1, ticks, np.int64)
    paired = np.flatnonzero(rows != UNPAIRED)
    position[rows[paired]] = paired
    position = np.minimum.accumulate(position[::-1])[::-1]
    turns, within = np.divmod(end, period)
    result: NDArray[np.int64] = turns * ticks + position[within]
    return result
