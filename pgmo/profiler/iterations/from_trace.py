"""Profile of a trace: of one iteration if its iterations repeat, else of the whole trace.

    requests   h h h | a b c d | a b c d | a b          h: warm-up, other requests
    pieces     0     | 1       | 2       | 3            reference: 2, the last whole piece
    paired     - - - | 0 1 2 3 | 0 1 2 3 | 0 1          3 shows when wrapping blocks are freed

Iterations begin at the trace's marks if two iterations between marks make the same requests.
Otherwise, iterations are periods of the requests, and begin where live bytes are lowest. Most
periods are loops within an iteration and are rejected (`iteration_guess`). If no period is
accepted, iterations between marks may also differ in sizes (`find_steady`). With exactly one mark,
the profile is of the whole trace. The caller can also choose the whole trace or one iteration.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError
from pgmo.profiler.iterations.lifetimes import Steady, build_profile
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.iterations.step_finder import find_steady
from pgmo.profiler.iterations.traces.iteration_guess import objection
from pgmo.profiler.iterations.traces.loops import names_of
from pgmo.profiler.iterations.traces.period import Period, find_period
from pgmo.profiler.iterations.traces.same_pieces import same_pieces, steady_of
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.recording import EVENT, FREE, REQUEST, STEP, STREAM, Iteration, split
from pgmo.profiler.trace import Event, MarkedBy, Trace
from pgmo.profiler.trace_blocks import NOT_FREED, live_bytes

_ALMOST = 0.1
"""Tolerance, in iterations, for the rounding of the first and last piece to whole iterations."""

_FEWEST_BY_HAND = 2
"""Minimum number of iterations that the caller's own marks must give."""

_MOST_OF_ONE = 0.5
"""Minimum share of an iteration in the first or the last piece. If both have less, none counts."""


def profile_of(
    trace: Trace,
    meta: ProfileMeta | None = None,
    *,
    whole: bool = False,
    iteration: int | None = None,
) -> Profile:
    """Return the profile of a trace, with the trace attached.

    A trace with repeated iterations gives a circular profile, any other trace a linear profile. In
    a linear profile, blocks from before the trace start at tick 0, and are persistent if no event
    frees them. Blocks that are allocated in the trace and never freed live to the trace's end. A
    chosen `iteration` always gives a circular profile.

    Args:
        trace: the trace. If iterations were guessed, the attached copy has marks for them.
        meta: metadata of the profile; a note `iterations` describes the result.
        whole: whether to return a linear profile of the whole trace even if it repeats.
        iteration: number of the iteration to choose, repeated or not. Number 0 begins at the first
            mark, and number -1 ends there. Without marks, iterations are periods of the requests,
            even if `objection` rejects them.

    Raises:
        OptionError: when there is no such iteration, or `whole` and `iteration` are both given.
        ProfileError: when the trace has more requests than a profile can hold.

    Example:
        >>> rows = [(0, 64, 8), (0, 128, 4), (1, 64, 8), (1, 128, 4)] * 2
        >>> kind, address, size = zip(*rows)
        >>> profile = profile_of(Trace.from_columns(kind=kind, address=address, size=size))
        >>> profile.circular, profile.size.tolist(), profile.end.tolist()
        (True, [8, 4], [2, 2])
    """
    if whole and iteration is not None:
        raise OptionError("choose the whole recording or one iteration, not both")
    meta = meta or ProfileMeta()
    own = trace.kind[trace.before :] == Event.MARK
    marks = trace.before + np.flatnonzero(own)
    edges = np.searchsorted(trace.blocks.requests, marks)
    pieces = _pieces(trace, edges) if len(marks) else []
    if whole:
        return _line(trace, meta, "none, by choice; all {} requests as one sequence")
    if iteration is not None and not len(marks):
        cut = next(_cut_by_period(trace), None)
        if cut is None:
            raise OptionError(
                "the recording has no marks, and no period covers half of its requests, so there "
                "are no iterations to choose from; leave out the choice of an iteration"
            )
        _, trace, pieces = cut
        marks = np.flatnonzero(trace.kind == Event.MARK)
    if iteration is not None:
        chosen = _chosen(trace, pieces, marks, iteration)
        return _circle(trace, pieces, chosen, meta, f"number {iteration}, chosen by hand")
    if len(marks) == 1:
        return _line(trace, meta, "one is marked; all {} requests as one sequence")
    steady = same_pieces(pieces)
    if steady is not None and 2 * _count(steady) < len(pieces):
        # Few pieces are equal, so sizes probably change between iterations: take the larger group.
        steady = max(steady, find_steady(pieces) or steady, key=_count)
    if steady is not None:
        return _circle(trace, pieces, steady, meta, "by the marks in the trace")
    found, why = _by_period(trace, meta)
    if found is not None:
        return found
    # Sizes that change in each iteration have no period, but marks still show the boundaries.
    steady = find_steady(pieces)
    if steady is not None:
        return _circle(trace, pieces, steady, meta, "by the marks in the trace")
    return _line(trace, meta, "none that repeats; all {} requests as one sequence" + why)


def marked_every(trace: Trace, count: int) -> Trace:
    """Return a trace with iterations of `count` steps, or of `count` requests without steps.

    If iterations are counted in requests, the last iteration ends with the trace. Requests before
    the first iteration belong to no iteration.

    Raises:
        OptionError: when the trace has fewer than two such iterations, or `count` is below 1.
    """
    if count < 1:
        raise OptionError(f"an iteration has at least 1 step or request, not {count}")
    marks = trace.before + np.flatnonzero(trace.kind[trace.before :] == Event.MARK)
    requests = trace.blocks.requests
    begins = marks[::count] if len(marks) else requests[len(requests) % count :: count]
    if len(begins) < _FEWEST_BY_HAND:
        unit = "steps" if len(marks) else "requests"
        raise OptionError(
            f"the recording has {len(marks) or len(requests):,} {unit}, too few for "
            f"{_FEWEST_BY_HAND} iterations of {count:,}; choose fewer {unit} for an iteration"
        )
    return replace(_marked(trace, begins), marked_by=MarkedBy.STEPS)


def _by_period(trace: Trace, meta: ProfileMeta) -> tuple[Profile | None, str]:
    """Return the profile of a period, or None; and why the first period was rejected, or ""."""
    why = ""
    for period, marked, pieces in _cut_by_period(trace):
        steady = same_pieces(pieces)
        if steady is None:
            continue
        profile = _circle(marked, pieces, steady, meta, "found by their period")
        against = objection(trace, period, pieces, steady, profile)
        if not against:
            return profile, ""
        why = (
            why or f"; {period.times} times {period.length} requests are not iterations: {against}"
        )
    return None, why


def _cut_by_period(trace: Trace) -> Iterator[tuple[Period, Trace, list[Iteration]]]:
    """Yield candidate periods, each with the trace that it marks, and its pieces.

    Periods by origin come first, because sizes alone repeat in equal layers.
    """
    requests, names = trace.blocks.requests, names_of(trace)
    tried: list[Period] = []
    for sequence in (names * (len(trace.tags) + 1) + trace.tag[requests], names):
        period = find_period(sequence)
        if period is not None and period not in tried:
            tried.append(period)
            edges = _boundaries(trace, period)
            marked = _marked(trace, requests[edges[edges < len(requests)]])
            yield period, marked, _pieces(trace, edges)


def _chosen(trace: Trace, pieces: list[Iteration], marks: NDArray[np.int64], number: int) -> Steady:
    """Return the group of the iteration with this number; see `steady_of`."""
    requests = trace.blocks.requests
    found = {
        int(np.searchsorted(marks, requests[piece.first])) - 1: piece
        for piece in pieces
        if len(piece)
    }
    if number not in found:
        raise OptionError(
            f"iteration {number} is not in the recording, or has no requests; the iterations with "
            f"requests are {_ranges(sorted(found))}"
        )
    return steady_of(pieces, found[number])


def _ranges(numbers: Sequence[int]) -> str:
    """Format ascending integers, with runs as "3 to 9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{low} to {high}" if low < high else str(low) for low, high in runs)


def _count(steady: Steady) -> int:
    """Count the members of the group that are paired with all requests of the reference."""
    ticks = len(steady.varying)
    return sum(1 for rows in steady.rows.values() if len(rows) == ticks and rows.min() >= 0)


def _pieces(trace: Trace, edges: NDArray[np.int64]) -> list[Iteration]:
    """Return the requests between the edges, before the first edge, and after the last."""
    blocks = trace.blocks
    row = blocks.requests
    shared, ends = blocks.shared[blocks.before :], blocks.ends[blocks.before :]
    edges = np.unique(edges)
    edges = edges[(edges > 0) & (edges < len(row))]
    number = np.arange(len(row))
    freed, used = np.flatnonzero(ends != NOT_FREED), np.flatnonzero(shared)
    counts = (len(row), len(freed), len(used), len(edges) + 1)
    events = np.zeros(sum(counts), EVENT)
    events["kind"] = np.repeat([REQUEST, FREE, STREAM, STEP], counts)
    events["block"][: sum(counts[:3])] = np.concatenate([number, freed, used])
    events["tag"] = -1
    events["bytes"][: len(row)] = trace.size[row]
    events["stream"][: len(row)] = trace.stream[row]
    events["tag"][: len(row)] = trace.tag[row]
    # A step directly precedes the first request of the next piece and follows earlier frees.
    place = np.concatenate([row, ends[freed], row[used], row[edges] - 0.5, [len(trace)]])
    rank = np.repeat([0, 1, 2, 3], counts)
    return split(events[np.lexsort((rank, place))])


def _boundaries(trace: Trace, period: Period) -> NDArray[np.int64]:
    """Return the requests at which iterations begin: where live bytes are lowest."""
    requests = trace.blocks.requests
    # Live bytes before each request; nothing precedes a request in row 0.
    live = live_bytes(trace)[requests - 1]
    if len(requests) and requests[0] == 0:
        live[0] = 0
    # Search the last whole period. A shifted boundary can cost one period, so shift freely only
    # if there are more than two periods.
    spare = (period.stop - period.start) % period.length
    phases = period.length if period.times > 2 else spare + 1
    last = period.stop - spare - period.length - (period.length if phases > spare + 1 else 0)
    phase = int(np.argmin(live[last : last + phases]))
    return np.arange(period.start + phase, period.stop + 1, period.length)


def _marked(trace: Trace, begins: NDArray[np.int64]) -> Trace:
    """Return the trace with marks before these rows only."""
    kept = np.flatnonzero(trace.kind != Event.MARK)
    place = np.concatenate([kept, begins - 0.5])
    order = np.argsort(place, kind="stable")
    source = np.concatenate([kept, begins])[order]
    is_mark = order >= len(kept)
    return replace(
        trace,
        kind=np.where(is_mark, Event.MARK, trace.kind[source]),
        address=np.where(is_mark, 0, trace.address[source]),
        size=np.where(is_mark, 0, trace.size[source]),
        stream=np.where(is_mark, 0, trace.stream[source]).astype(np.uint64),
        tag=np.where(is_mark, -1, trace.tag[source]),
        time=trace.time[source],
        marked_by=MarkedBy.PERIOD,
    )


def _circle(
    trace: Trace,
    pieces: Sequence[Iteration],
    steady: Steady,
    meta: ProfileMeta,
    how: str,
) -> Profile:
    profile = build_profile(list(pieces), steady, trace.tags)
    reference = pieces[steady.reference]
    rows = trace.blocks.requests[reference.first : reference.first + len(reference)]
    notes = {**meta.notes, "iterations": f"{_counted(pieces, steady, profile.ticks)}, {how}"}
    return replace(
        profile,
        tag=reference.tag,
        address=trace.address[rows],
        meta=replace(meta, notes=notes),
        trace=trace,
    )


def _counted(pieces: Sequence[Iteration], steady: Steady, ticks: int) -> str:
    if steady.kind == "none":
        return f"1 with {ticks} requests"
    alike, recorded = _count(steady), _recorded(pieces, pieces[steady.reference])
    if recorded <= alike:
        return f"{alike} with {ticks} requests each"
    return f"{recorded}, of which {alike} make the same {ticks} requests"


def _recorded(pieces: Sequence[Iteration], reference: Iteration) -> int:
    """Count the recorded iterations. The first and the last may be recorded in part.

    The first and the last count if they have enough of the reference's requests. The first may also
    have extra requests, such as for optimizer state.
    """
    whole = sum(1 for piece in pieces[1:-1] if len(piece))
    ends = [
        1.0 if piece is reference else (align(reference, piece) != UNPAIRED).sum() / len(reference)
        for piece in {pieces[0].index: pieces[0], pieces[-1].index: pieces[-1]}.values()
    ]
    return whole + (int(sum(ends) + _ALMOST) if max(ends) >= _MOST_OF_ONE else 0)


def _line(trace: Trace, meta: ProfileMeta, what: str) -> Profile:
    """Return the profile of the whole trace. `what` is a note with `{}` for the request count."""
    blocks = trace.blocks
    requests, ticks = blocks.requests, len(blocks.requests)
    start = np.searchsorted(requests, blocks.row)
    stays = np.where(blocks.row < trace.before, NEVER, max(ticks, 1))
    end = np.where(blocks.ends == NOT_FREED, stays, np.searchsorted(requests, blocks.ends))
    kept = (end == NEVER) | (end > start)  # Earlier blocks may be freed before the first request.
    row = blocks.row[kept]
    return Profile.from_columns(
        size=blocks.size[kept],
        start=start[kept],
        end=end[kept],
        ticks=max(ticks, 1),
        stream=trace.stream[row],
        tag=blocks.tag[kept],
        shared=blocks.shared[kept],
        address=trace.address[row],
        circular=False,
        steady=False,
        tags=trace.tags,
        meta=replace(meta, notes={**meta.notes, "iterations": what.format(ticks)}),
        trace=trace,
    )
