r"""Test whether a period of a trace is the iteration, or a loop within one.

    live   |       /\            an iteration   contains the peak of the recording,
    bytes  |    /\/  \/\                        covers most of the recording,
           | /\/        \/\                     and leaves live bytes almost unchanged
           +-----------------    layers         do none of these

Without marks and stacks, only these three signs exist. A wrong iteration is worse than none: the
load of a layer may be a thousandth of the peak, and blocks kept for the backward pass look like a
leak. If stacks show a training loop in the user's own code, only the first sign is checked, because
a program may leak, and its first iterations may differ. The user can also choose the iteration.
"""

import numpy as np

from pgmo.profiler.iterations.lifetimes import Steady
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.iterations.traces.loops import (
    is_training_loop,
    is_within_backward,
    is_within_module,
)
from pgmo.profiler.iterations.traces.period import Period
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration
from pgmo.profiler.trace import Event, MarkedBy, Trace
from pgmo.profiler.trace_blocks import NOT_FREED, live_bytes, live_peak
from pgmo.units import format_bytes

LEAST_SHARE = 0.8
"""Minimum share of all requests that the iterations must cover."""

_KEPT_DIVISOR = 4
"""An iteration may keep and free at most its load divided by this number, in bytes in total."""

_LONGEST = 3
"""Maximum length of the first and last piece in iterations; longer pieces are not compared."""

_PEAK_DIVISOR = 100
"""The recorded peak may exceed the peak of the iterations by their load divided by this number."""


def objection(
    trace: Trace,
    period: Period,
    pieces: list[Iteration],
    steady: Steady,
    profile: Profile,
) -> str:
    """Return why a period of the requests is not an iteration; "" if it may be one."""
    requests = trace.blocks.requests
    is_training = is_training_loop(trace, period)
    covered = _covered(period, pieces, pieces[steady.reference])
    if covered < LEAST_SHARE * len(requests) and not is_training:
        return f"they are only {covered / len(requests):.0%} of the requests"
    refusal = _against_marks(trace, period) or _against_peak(trace, period, profile.max_load())
    if refusal:
        return refusal
    left, load = _bytes_kept(trace, pieces, profile), profile.max_load()
    if _KEPT_DIVISOR * left > load and not is_training:
        return (
            f"each adds or frees {format_bytes(left)} and uses {format_bytes(load)}, as layers do"
        )
    if is_within_module(trace, period):
        return "all come from a single call of a module"
    if is_within_backward(trace, period):
        return "all come from the backward pass"
    return ""


def _covered(period: Period, pieces: list[Iteration], reference: Iteration) -> int:
    """Count the requests in the repeated stretch, and paired requests of the adjacent pieces.

    The first iteration often has extra requests, for optimizer state, which have no pairs.
    """
    head, tail = pieces[0], pieces[-1]
    before, after = period.start - head.first, tail.first + len(tail) - period.stop
    covered = period.stop - period.start
    for piece, outside in ((head, slice(0, before)), (tail, slice(len(tail) - after, None))):
        if piece is not reference and 0 < len(piece) <= _LONGEST * len(reference):
            covered += int((align(reference, piece)[outside] != UNPAIRED).sum())
    return covered


def _against_marks(trace: Trace, period: Period) -> str:
    """Return an objection if every iteration that the program marks has at least two periods."""
    marks = np.flatnonzero(trace.kind == Event.MARK)
    if trace.marked_by != MarkedBy.STEPS or len(marks) < 2:
        return ""
    inside = np.diff(np.searchsorted(trace.blocks.requests, marks))
    inside = inside[inside > 0]
    if len(inside) and 2 * period.length <= inside.min():
        return f"the program marks iterations of {inside.min()} requests or more"
    return ""


def _against_peak(trace: Trace, period: Period, load: int) -> str:
    requests = trace.blocks.requests
    stop = requests[period.stop] if period.stop < len(requests) else len(trace)
    inside = int(live_bytes(trace)[requests[period.start] : stop].max())
    peak = live_peak(trace)
    if peak - inside > load // _PEAK_DIVISOR:
        return (
            f"the recorded peak of {format_bytes(peak)} lies outside them; inside, the peak is "
            f"{format_bytes(inside)}"
        )
    return ""


def _bytes_kept(trace: Trace, pieces: list[Iteration], profile: Profile) -> int:
    """Return the bytes that an iteration keeps, plus its mean freed bytes of older blocks."""
    left = int(profile.size[profile.persistent].sum())
    blocks = trace.blocks
    begins = blocks.requests[[piece.first for piece in pieces[1:]]]
    if len(begins) < 3:
        return left
    # The first two iterations may free blocks that the warm-up left.
    freed = (blocks.row < begins[0]) & (blocks.freed != NOT_FREED)
    freed &= (blocks.freed >= begins[2]) & (blocks.freed < begins[-1])
    return left + int(blocks.size[freed].sum()) // max(1, len(begins) - 3)
