"""What a verdict is found from: kept at boundaries, and looked at when somebody asks."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.session.statistics import IterationStatistics, Phase, Summary
from pgmo.packing.plan import Plan

_LAST = 16
"""Replayed iterations that tell what is outside of the plan by now."""


@dataclass(frozen=True, eq=False)
class Beginning:
    """The recording that the first plan was made from.

    Args:
        events: array of dtype `EVENT`, shape (events,), from the session's first request on.
        iterations: that it has.
        pages: the most bytes of pages held until its end; 0 where there are no pages.
        before: bytes of pages held when the session began.
    """

    events: NDArray[np.void]
    iterations: int
    pages: int = 0
    before: int = 0


@dataclass(frozen=True, eq=False)
class Evidence:
    """What there is to judge by; sizes in bytes.

    Args:
        summary: what was counted.
        framework: the adapter's name.
        device: "cpu", "cuda:0".
        plan: the one with the largest arena; None while there is none.
        outside: that had no slot at once in one of the last iterations, at most; blocks that stay
            for good, as optimizer state, are not among them.
        pages: held while plans served, less what stays for good; 0 where there are none.
        beginning: None where nothing was recorded, or there is nothing to compare it with.
        gave_up: why the session serves nothing any more; "" as long as it does.
        recorded_only: whether it was to serve nothing.

    Example:
        >>> Evidence(Summary(3, 3, 0), "torch", "cpu").plan is None
        True
    """

    summary: Summary
    framework: str
    device: str
    plan: Plan | None = None
    outside: int = 0
    pages: int = 0
    beginning: Beginning | None = None
    gave_up: str = ""
    recorded_only: bool = False


def outside_of_plan(
    history: Iterable[IterationStatistics], peak_fallback: int, least_fallback: int
) -> int:
    """Bytes that the last replayed iterations had at once outside of the plan, at most.

    No more than all that was requested there, and no more than the level rose by.

    Args:
        history: the newest first.
        peak_fallback: the most bytes outside of the plan.
        least_fallback: the least of them at the end of a replayed iteration: what stays for good.

    Example:
        >>> one = IterationStatistics(Phase.REPLAY, 4, 3, 400, 300, bytes_unplanned=40)
        >>> outside_of_plan([one], peak_fallback=1000, least_fallback=900)
        60
    """
    replayed = (one for one in history if one.phase is Phase.REPLAY)
    missed = (
        one.bytes_requested - one.bytes_hit - one.bytes_unplanned for one in islice(replayed, _LAST)
    )
    return max(0, min(max(missed, default=0), peak_fallback - least_fallback))
