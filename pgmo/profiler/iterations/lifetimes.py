"""Profile of one iteration. Later iterations show when blocks that are alive at its end are freed.

    iterations   A0        A1        B         A2          A: the structure, B: another structure
    clock        0 .. T    T .. 2T   2T        2T .. 3T    T requests each; B takes no ticks
    block              [-----------------)                 freed in B: lives to the start of A2

The clock advances only in iterations of the same structure. A block may be freed during another
structure, such as an evaluation between two training steps. Its lifetime then ends when the next
iteration of its own structure begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import distinct, is_among
from pgmo.profiler.iterations.iteration_kinds import Kind
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.ordering.recorded import order_of
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, Iteration
from pgmo.profiler.tag import Tag


@dataclass(frozen=True, eq=False)
class Steady:
    """Group of iterations of one structure.

    Args:
        kind: "exact", "fit", or "none" if no iterations agree, as in `iteration_kinds`.
        reference: index of the iteration whose requests the profile lists.
        rows: by iteration index: for each request, the paired request of the reference, or -1.
        varying: whether the size of each request differs between members, shape (requests of the
            reference,).
        followers: number of iterations recorded after the reference. With two, all frees of blocks
            that outlive an iteration have been recorded. With none, blocks that outlive the
            reference look persistent.
        explanation: reason why the iterations belong together, or why no iterations do.
    """

    kind: Kind
    reference: int
    rows: dict[int, NDArray[np.int64]]
    varying: NDArray[np.bool_]
    followers: int
    explanation: str


def build_profile(
    iterations: list[Iteration],
    steady: Steady,
    tags: Sequence[Tag] = (),
    meta: ProfileMeta | None = None,
    *,
    alone: bool = False,
) -> Profile:
    """Make a profile of the reference iteration of `steady`.

    A full member has at least as many requests as the reference. Sizes and lifetimes are the
    largest among full members. Shorter members are paired by similarity, so their lifetimes are
    used only for blocks that no full member frees. A block is persistent if no member frees it, or
    if it lives longer than two periods. A block that any member shares between streams is shared.

    With `alone`, sizes and lifetimes come from the reference only. Other members show only when
    blocks that outlive the reference are freed.
    """
    reference = iterations[steady.reference]
    size = reference.size.copy()
    members = [steady.reference] if alone else sorted(steady.rows)
    if steady.kind != "none":
        for index in members:
            rows = steady.rows[index]
            if len(rows) < len(reference):
                continue
            paired = rows != UNPAIRED
            size[rows[paired]] = np.maximum(size[rows[paired]], iterations[index].size[paired])
    ordinal = np.arange(len(reference))
    end = _ends(iterations, steady, members)
    return Profile(
        size=size,
        start=ordinal,
        end=end,
        stream=reference.stream,
        thread=reference.thread,
        tag=tags_of(iterations, steady, end),
        ordinal=ordinal,
        varying=steady.varying,
        shared=_shared(iterations, steady),
        address=np.zeros(len(reference), np.int64),
        ticks=len(reference),
        circular=True,
        steady=steady.kind != "none",
        tags=tuple(tags),
        meta=meta or ProfileMeta(),
        order=_order(iterations, steady, members),
    )


def _order(iterations: list[Iteration], steady: Steady, members: list[int]) -> Order | None:
    """Return the stream order of the reference, or None if unknown; see `order_of`."""
    if steady.reference not in members:
        return None
    return order_of([iterations[one] for one in members], members.index(steady.reference))


def _shared(iterations: list[Iteration], steady: Steady) -> NDArray[np.bool_]:
    """Return whether any member uses the block of each row on several streams."""
    shared = iterations[steady.reference].shared.copy()
    for index, rows in steady.rows.items():
        shared[rows[iterations[index].shared & (rows != UNPAIRED)]] = True
    return shared


def _ends(iterations: list[Iteration], steady: Steady, counted: list[int]) -> NDArray[np.int64]:
    """Return the latest end of each row in ticks since the row's iteration began, or `NEVER`."""
    ticks = len(iterations[steady.reference])
    members = sorted(steady.rows)
    clock = _Clock(iterations, steady, ticks)
    start = np.arange(ticks)
    ends = np.zeros((2, ticks), np.int64)  # Row 0 from members of full length, row 1 from others.
    outlived = np.zeros(ticks, np.bool_)
    for turn, index in enumerate(members):
        if index not in counted:
            continue
        rows, gone = steady.rows[index], iterations[index].gone
        end_known = ends[int(len(rows) < ticks)]
        known = (rows != UNPAIRED) & (gone != ALIVE)
        row = rows[known]
        end_known[row] = np.maximum(end_known[row], clock.at(gone[known]) - turn * ticks)
        # A block that survived two whole periods counts as persistent.
        alive = rows[(rows != UNPAIRED) & (gone == ALIVE)]
        outlived[alive] |= (len(members) - turn) * ticks > start[alive] + 2 * ticks
    end = np.where(ends[0] > 0, ends[0], ends[1])
    forever = (end == 0) | outlived | (end > start + 2 * ticks)
    return np.where(forever, NEVER, end)


class _Clock:
    """Converter of request numbers in the recording into ticks since the first member began."""

    def __init__(self, iterations: list[Iteration], steady: Steady, ticks: int) -> None:
        members = sorted(steady.rows)
        self._last = np.array([it.first + len(it) for it in iterations])
        self._first = np.array([it.first for it in iterations])
        self._is_member = is_among(np.arange(len(iterations)), members)
        # `_begun` counts the members up to and including each iteration. `_table` has, for each
        # position in each member, the tick of the next paired request.
        self._begun = np.cumsum(self._is_member)
        self._ticks = ticks
        tables = [_next_row(steady.rows[index], ticks) for index in members]
        self._table = np.concatenate(tables)
        offsets = np.cumsum([0] + [len(table) for table in tables[:-1]])
        self._offset = np.zeros(len(iterations), np.int64)
        self._offset[members] = offsets

    def at(self, request: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tick of each request number. A boundary belongs to the earlier iteration."""
        inside = np.searchsorted(self._last, request, side="left")
        local = request - self._first[inside]
        member = self._is_member[inside]
        position = np.where(member, self._offset[inside] + local, 0)
        within = np.where(member, self._table[position], self._ticks)
        ticks: NDArray[np.int64] = (self._begun[inside] - 1) * self._ticks + within
        return ticks


def _next_row(rows: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """Return, for each position 0..n of a member, the first reference request at or after it."""
    filled = np.append(np.where(rows == UNPAIRED, ticks, rows), ticks)
    return np.minimum.accumulate(filled[::-1])[::-1]


def tags_of(
    iterations: list[Iteration], steady: Steady, end: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the tag number of each request of the reference, or -1.

    The tags come from the iteration with the most distinct tags; members of `steady` are preferred.
    """
    reference = iterations[steady.reference]
    tag = np.full(len(reference), -1, np.int32)
    # Count distinct tags: an iteration with a compilation has many requests with one tag.
    tagged = [len(distinct(one.tag[one.tag >= 0])) for one in iterations]
    order = sorted(range(len(iterations)), key=lambda i: (i in steady.rows, tagged[i]))
    tags_from = next((index for index in reversed(order) if tagged[index]), steady.reference)
    source = iterations[tags_from]
    rows = steady.rows.get(tags_from)
    is_outside = rows is None
    survives = source.gone == ALIVE
    if tags_from == 0 and len(source) != len(reference) and survives.any() and (end != NEVER).all():
        # The first iteration allocates optimizer state next to temporaries of the same sizes. Only
        # the temporaries recur, so only they may be paired.
        source, rows = source.part(~survives), None
    # A recording may begin in the middle of the first iteration.
    last = np.arange(max(0, len(reference) - len(source)), len(reference))
    begins_late = tags_from == 0 and source.same_requests(reference.part(last))
    if begins_late:
        rows = last
    elif rows is None:
        rows = align(reference, source)
    paired = rows != UNPAIRED
    if is_outside and not _is_alike(reference, source, rows):
        return tag
    tag[rows[paired]] = source.tag[paired]
    tag = fill_tags(tag)
    if begins_late:
        tag[: last[0]] = -1
    return tag


def _is_alike(reference: Iteration, other: Iteration, rows: NDArray[np.int64]) -> bool:
    """Return whether 4/5 of the shorter iteration are paired, half of the pairs at equal sizes."""
    paired = rows != UNPAIRED
    equal = reference.size[rows[paired]] == other.size[paired]
    enough = 5 * paired.sum() >= 4 * min(len(reference), len(other))
    return bool(enough and 2 * equal.sum() >= len(equal))


def fill_tags(tag: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give each untagged request the tag of the next tagged request, or of the last one.

    Untagged requests are made between two operators, for example by C++ code outside of operators.
    """
    known = np.flatnonzero(tag >= 0)
    if not known.size:
        return tag
    following = np.searchsorted(known, np.arange(len(tag)))
    return tag[known[np.minimum(following, len(known) - 1)]]
