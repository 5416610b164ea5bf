r"""Whether what repeats in a trace is the iteration, or a loop within one.

    live   |       /\            an iteration   holds the peak of all that was recorded,
    bytes  |    /\/  \/\                        is most of what was recorded,
           | /\/        \/\                     and leaves memory as it found it
           +-----------------    layers         do none of these

Where nobody marked the iterations, that is all there is to tell. A wrong iteration is worse than
none: its load may be a thousandth of the peak, and what it keeps for the backward pass looks like a
leak. Whoever knows better names the iteration.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.lifetimes import Steady
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.iterations.traces.block_ends import NOT_FREED, Blocks, live_bytes
from pgmo.profiler.iterations.traces.loops import is_within_backward, is_within_module
from pgmo.profiler.iterations.traces.period import Period
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration
from pgmo.profiler.trace import Event, MarkedBy, Trace
from pgmo.units import format_bytes

LEAST_SHARE = 0.8
"""The share of all requests that must belong to iterations."""

_MOST_LEFT = 4
"""An iteration that leaves, or takes, more than this part of its load does not repeat."""

_LONGEST = 3
"""Times its length that an iteration has when it is the first, joined to the end of another."""

_NEAR = 100
"""The peak may be above that of the iterations by this part of their load: other temporaries."""


def objection(
    trace: Trace,
    blocks: Blocks,
    requests: NDArray[np.int64],
    period: Period,
    pieces: list[Iteration],
    steady: Steady,
    profile: Profile,
) -> str:
    """Says why a period of the requests is no iteration; "" where nothing speaks against it.

    Args:
        trace: the trace.
        blocks: its blocks.
        requests: rows of its requests, shape (n,).
        period: of these.
        pieces: the requests cut at the period's boundaries.
        steady: those that are the same.
        profile: of the iteration that the period would be.
    """
    covered = _covered(period, pieces, pieces[steady.reference])
    if covered < LEAST_SHARE * len(requests):
        return f"these are {covered / len(requests):.0%} of the requests"
    told = _against_marks(trace, requests, period) or _against_peak(
        trace, blocks, requests, period, profile.max_load()
    )
    if told:
        return told
    left, load = _left(blocks, trace, pieces, profile), profile.max_load()
    if _MOST_LEFT * left > load:
        return (
            f"each leaves or takes {format_bytes(left)} and works with {format_bytes(load)}, as "
            "layers do"
        )
    if is_within_module(trace, requests, period):
        return "all of them come from within a single call of a module"
    if is_within_backward(trace, requests, period):
        return "all of them come from within the backward pass"
    return ""


def _covered(period: Period, pieces: list[Iteration], reference: Iteration) -> int:
    """Requests in the stretch that repeats, and in iterations cut short before and after it.

    The first iteration of a recording is often one with requests of its own: optimizer state.
    """
    head, tail = pieces[0], pieces[-1]
    before, after = period.start - head.first, tail.first + len(tail) - period.stop
    covered = period.stop - period.start
    for piece, outside in ((head, slice(0, before)), (tail, slice(len(tail) - after, None))):
        if piece is not reference and 0 < len(piece) <= _LONGEST * len(reference):
            covered += int((align(reference, piece)[outside] != UNPAIRED).sum())
    return covered


def _against_marks(trace: Trace, requests: NDArray[np.int64], period: Period) -> str:
    """An iteration that the program marked holds all that repeats within it."""
    marks = np.flatnonzero(trace.kind == Event.MARK)
    if trace.marked_by != MarkedBy.STEPS or len(marks) < 2:
        return ""
    inside = np.diff(np.searchsorted(requests, marks))
    inside = inside[inside > 0]
    if len(inside) and 2 * period.length <= inside.min():
        return f"the program marks iterations of {inside.min()} requests or more"
    return ""


def _against_peak(
    trace: Trace, blocks: Blocks, requests: NDArray[np.int64], period: Period, load: int
) -> str:
    live = live_bytes(trace, blocks)
    stop = requests[period.stop] if period.stop < len(requests) else len(trace)
    inside = int(live[requests[period.start] : stop].max())
    peak = int(live[max(0, trace.before - 1) :].max())
    if peak - inside > load // _NEAR:
        return (
            f"the recorded peak of {format_bytes(peak)} is elsewhere; there it is "
            f"{format_bytes(inside)}"
        )
    return ""


def _left(blocks: Blocks, trace: Trace, pieces: list[Iteration], profile: Profile) -> int:
    """Bytes that an iteration leaves behind, or takes away of what was there before all of them."""
    left = int(profile.size[profile.persistent].sum())
    first = int(np.searchsorted(blocks.row, trace.before))
    begins = blocks.row[[first + piece.first for piece in pieces[1:]]]
    if len(begins) < 3:
        return left
    # What the first two take may be what warming up left.
    gone = (blocks.row < begins[0]) & (blocks.let_go != NOT_FREED)
    gone &= (blocks.let_go >= begins[2]) & (blocks.let_go < begins[-1])
    taken = int(trace.size[blocks.row[gone]].sum()) // max(1, len(begins) - 3)
    return left + taken
