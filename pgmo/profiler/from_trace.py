"""Makes a profile of a trace: of one iteration where it repeats, else of all of it.

    requests   h h h | a b c d | a b c d | a b          h: head, of another kind
    pieces     0     | 1       | 2       | 3            reference: 2, the last whole one
    paired     - - - | 0 1 2 3 | 0 1 2 3 | 0 1        the last one tells when wrapping blocks die

Boundaries are the trace's marks if the iterations between them agree. If not, they come from the
period of the requests, and lie where the least is alive; but a loop over the layers of one network
is no iteration.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.alignment import UNPAIRED
from pgmo.profiler.lifetimes import Steady, build_profile
from pgmo.profiler.loops import is_within_module
from pgmo.profiler.pairing import NOT_FREED, Blocks, pair_blocks
from pgmo.profiler.period import Period, find_period
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.recording import EVENT, FREE, REQUEST, STEP, STREAM, Iteration, split
from pgmo.profiler.step_finder import find_steady
from pgmo.profiler.trace import Event, Trace


def profile_of(trace: Trace, meta: ProfileMeta | None = None) -> Profile:
    """The profile of a trace, with the trace attached.

    A steady iteration gives a circle. What does not repeat gives a line: blocks from before the
    trace begin at tick 0, and are persistent if nothing frees them; blocks that the trace makes and
    does not free live to its end, as that is all it says.

    Args:
        trace: the trace; marks are added to the one that is attached where they were found.
        meta: goes into the profile, with a note `iterations` in words about what was found.

    Raises:
        ProfileError: when the trace has more requests than a profile can hold.

    Example:
        >>> rows = [(0, 64, 8), (0, 128, 4), (1, 64, 8), (1, 128, 4)] * 2
        >>> kind, address, size = zip(*rows)
        >>> profile = profile_of(Trace.from_columns(kind=kind, address=address, size=size))
        >>> profile.circular, profile.size.tolist(), profile.end.tolist()
        (True, [8, 4], [2, 2])
    """
    meta = meta or ProfileMeta()
    blocks = pair_blocks(trace)
    requests = blocks.row[blocks.row >= trace.before]
    own = trace.kind[trace.before :] == Event.MARK
    marks = trace.before + np.flatnonzero(own)
    pieces = _pieces(trace, blocks, np.searchsorted(requests, marks)) if len(marks) else []
    steady = _same(pieces)
    if steady is not None and 2 * _count(steady) < len(pieces):
        # Few are the same: sizes change from one to the next, and the largest counts.
        steady = max(steady, find_steady(pieces) or steady, key=_count)
    if steady is not None:
        return _circle(trace, blocks, pieces, steady, meta, "by the marks in the trace")
    found = _by_period(trace, blocks, requests, meta)
    if found is not None:
        return found
    # Sizes that change from one iteration to the next have no period, but marks may tell them.
    steady = find_steady(pieces)
    if steady is not None:
        return _circle(trace, blocks, pieces, steady, meta, "by the marks in the trace")
    return _line(trace, blocks, meta)


def _by_period(
    trace: Trace, blocks: Blocks, requests: NDArray[np.int64], meta: ProfileMeta
) -> Profile | None:
    """The profile of what repeats; None if nothing does, or if it is no iteration."""
    names = _names(trace, requests)
    # Where requests come from tells more than their sizes, which may be the same in all layers.
    period = find_period(names * (len(trace.tags) + 1) + trace.tag[requests]) or find_period(names)
    if period is None or is_within_module(trace, requests, names, period):
        return None
    edges = _boundaries(trace, blocks, requests, period)
    pieces = _pieces(trace, blocks, edges)
    steady = _same(pieces)
    if steady is None:
        return None
    marked, again = _marked(trace, requests[edges[edges < len(requests)]])
    profile = _circle(marked, again, pieces, steady, meta, "found by their period")
    # What never frees anything makes a network of alike layers, or reads one from a file.
    return None if profile.persistent.all() else profile


def _count(steady: Steady) -> int:
    return sum(1 for rows in steady.rows.values() if len(rows) == len(steady.varying))


def _names(trace: Trace, requests: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each request; equal ones ask for the same size on the same stream."""
    _, size = np.unique(trace.size[requests], return_inverse=True)
    _, stream = np.unique(trace.stream[requests], return_inverse=True)
    names: NDArray[np.int64] = size.astype(np.int64) * (stream.max(initial=0) + 1) + stream
    return names


def _pieces(trace: Trace, blocks: Blocks, edges: NDArray[np.int64]) -> list[Iteration]:
    """The requests between the edges, also before the first and after the last one."""
    first = int(np.searchsorted(blocks.row, trace.before))
    row, shared = blocks.row[first:], blocks.shared[first:]
    # What other streams still used is free only when they are done with it.
    ends = np.where(shared, blocks.gone[first:], blocks.let_go[first:])
    edges = np.unique(edges)
    edges = edges[(edges > 0) & (edges < len(row))]
    number = np.arange(len(row))
    freed, told = np.flatnonzero(ends != NOT_FREED), np.flatnonzero(shared)
    counts = (len(row), len(freed), len(told), len(edges) + 1)
    events = np.zeros(sum(counts), EVENT)
    events["kind"] = np.repeat([REQUEST, FREE, STREAM, STEP], counts)
    events["block"][: sum(counts[:3])] = np.concatenate([number, freed, told])
    events["tag"] = -1
    events["bytes"][: len(row)] = trace.size[row]
    events["stream"][: len(row)] = trace.stream[row]
    events["tag"][: len(row)] = trace.tag[row]
    # A step comes right before the request that begins the next piece, after the frees before it.
    place = np.concatenate([row, ends[freed], row[told], row[edges] - 0.5, [len(trace)]])
    rank = np.repeat([0, 1, 2, 3], counts)
    return split(events[np.lexsort((rank, place))])


def _same(pieces: list[Iteration]) -> Steady | None:
    """The largest group of pieces with the same requests, and what the neighbours show of it."""
    groups: dict[bytes, list[int]] = {}
    for piece in pieces:
        if len(piece):
            groups.setdefault(piece.size.tobytes() + piece.stream.tobytes(), []).append(piece.index)
    members = max(groups.values(), key=lambda m: (len(m) * len(pieces[m[0]]), m[-1]), default=[])
    if len(members) < 2:
        return None
    reference = pieces[members[-1]]
    ticks = len(reference)
    rows = {index: np.arange(ticks) for index in members}
    head, tail = pieces[0], pieces[-1]
    end, start = _as_end(head, reference), _as_start(tail, reference)
    # A first one that ends like the others by chance, such as one that makes the optimizer's state,
    # tells nothing of how long blocks live.
    if (end == UNPAIRED).sum() > max(0, len(head) - ticks):
        end = np.full(len(head), UNPAIRED)
    for piece, partial in ((head, end), (tail, start)):
        if piece.index not in rows and (partial != UNPAIRED).any():
            rows[piece.index] = partial
    return Steady(
        kind="exact",
        reference=reference.index,
        rows=rows,
        varying=np.zeros(ticks, np.bool_),
        shadows=frozenset(),
        followers=len(pieces) - 1 - reference.index,
        explanation=f"{len(members)} iterations issue the same {ticks} requests",
    )


def _as_start(piece: Iteration, reference: Iteration) -> NDArray[np.int64]:
    """Rows of an iteration that was cut short."""
    return _leading(piece.size, piece.stream, reference.size, reference.stream)


def _as_end(piece: Iteration, reference: Iteration) -> NDArray[np.int64]:
    """Rows of an iteration whose beginning was not seen."""
    rows = _leading(
        piece.size[::-1], piece.stream[::-1], reference.size[::-1], reference.stream[::-1]
    )[::-1]
    return np.where(rows == UNPAIRED, UNPAIRED, len(reference) - 1 - rows)


def _leading(
    size: NDArray[np.int64],
    stream: NDArray[np.uint64],
    whole_size: NDArray[np.int64],
    whole_stream: NDArray[np.uint64],
) -> NDArray[np.int64]:
    both = min(len(size), len(whole_size))
    differ = np.flatnonzero(
        (size[:both] != whole_size[:both]) | (stream[:both] != whole_stream[:both])
    )
    alike = int(differ[0]) if differ.size else both
    rows = np.full(len(size), UNPAIRED, np.int64)
    rows[:alike] = np.arange(alike)
    return rows


def _boundaries(
    trace: Trace, blocks: Blocks, requests: NDArray[np.int64], period: Period
) -> NDArray[np.int64]:
    """Requests that begin an iteration: where the least is alive, so that few blocks wrap."""
    change = np.zeros(len(trace) + 1, np.int64)
    size = trace.size[blocks.row]
    change[blocks.row] += size
    freed = blocks.let_go != NOT_FREED
    np.add.at(change, blocks.let_go[freed], -size[freed])
    live = np.cumsum(change)[requests - 1]  # before each request; a first one has nothing before
    if len(requests) and requests[0] == 0:
        live[0] = 0
    # Of the last whole turn; only where there are more than two may a turn be lost for it.
    spare = (period.stop - period.start) % period.length
    phases = period.length if period.times > 2 else spare + 1
    last = period.stop - spare - period.length - (period.length if phases > spare + 1 else 0)
    phase = int(np.argmin(live[last : last + phases]))
    return np.arange(period.start + phase, period.stop + 1, period.length)


def _marked(trace: Trace, begins: NDArray[np.int64]) -> tuple[Trace, Blocks]:
    """The trace with a mark before each of these rows, and no others."""
    kept = np.flatnonzero(trace.kind != Event.MARK)
    place = np.concatenate([kept, begins - 0.5])
    order = np.argsort(place, kind="stable")
    source = np.concatenate([kept, begins])[order]
    is_mark = order >= len(kept)
    marked = replace(
        trace,
        kind=np.where(is_mark, Event.MARK, trace.kind[source]),
        address=np.where(is_mark, 0, trace.address[source]),
        size=np.where(is_mark, 0, trace.size[source]),
        stream=np.where(is_mark, 0, trace.stream[source]).astype(np.uint64),
        tag=np.where(is_mark, -1, trace.tag[source]),
        time=trace.time[source],
    )
    return marked, pair_blocks(marked)


def _circle(
    trace: Trace,
    blocks: Blocks,
    pieces: Sequence[Iteration],
    steady: Steady,
    meta: ProfileMeta,
    how: str,
) -> Profile:
    """The profile of the steady iteration."""
    profile = build_profile(list(pieces), steady, trace.tags)
    reference = pieces[steady.reference]
    first = int(np.searchsorted(blocks.row, trace.before)) + reference.first
    rows = blocks.row[first : first + len(reference)]
    notes = {**meta.notes, "iterations": f"{_count(steady)} of {profile.ticks} requests, {how}"}
    return replace(
        profile,
        tag=reference.tag,
        address=trace.address[rows],
        meta=replace(meta, notes=notes),
        trace=trace,
    )


def _line(trace: Trace, blocks: Blocks, meta: ProfileMeta) -> Profile:
    """The profile of everything."""
    seen = np.zeros(len(trace) + 1, np.int64)
    is_request = np.zeros(len(trace), np.bool_)
    is_request[blocks.row[blocks.row >= trace.before]] = True
    seen[1:] = np.cumsum(is_request)
    ticks = int(seen[-1])
    start = seen[blocks.row]
    before = blocks.row < trace.before
    ends = np.where(blocks.shared, blocks.gone, blocks.let_go)
    end = np.where(ends == NOT_FREED, np.where(before, NEVER, max(ticks, 1)), seen[ends])
    kept = (end == NEVER) | (end > start)  # some from before are freed before the first request
    row = blocks.row[kept]
    what = f"none that repeats; all {ticks} requests, as they came"
    return Profile.from_columns(
        size=trace.size[row],
        start=start[kept],
        end=end[kept],
        ticks=max(ticks, 1),
        stream=trace.stream[row],
        tag=trace.tag[row],
        shared=blocks.shared[kept],
        address=trace.address[row],
        circular=False,
        steady=False,
        tags=trace.tags,
        meta=replace(meta, notes={**meta.notes, "iterations": what}),
        trace=trace,
    )
