"""Builds the profile: when each block of the reference iteration dies, seen over what followed.

    iterations   A0        A1        B         A2          A the structure, B another one
    clock        0 .. T    T .. 2T   2T        2T .. 3T    T requests each; B takes no time
    block              [-----------------)                 freed in B: lives to the start of A2

Time passes only in iterations of the structure itself. A block that is freed while another
structure runs (an evaluation between two training steps) is gone when the structure's next
iteration begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import distinct, is_among
from pgmo.errors import ProfileError
from pgmo.profiler.iterations.iteration_kinds import Kind
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.ordering.recorded import order_of
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.recording import ALIVE, Iteration
from pgmo.profiler.tag import Tag


@dataclass(frozen=True, eq=False)
class Steady:
    """A group of iterations of one structure.

    Args:
        kind: "exact", "fit", or "none" when made by `best_effort`.
        reference: index of the iteration whose ordinals are used.
        rows: for each member its requests' ordinals in the reference or -1, by iteration index. An
            iteration that was recorded with tags is no member: the tagger's dispatch mode adds
            requests and lengthens lifetimes.
        varying: where members disagree about the size, shape (requests of the reference,).
        followers: complete iterations recorded after the reference, without those with tags; from
            two on, the frees of wrapping and doubly live blocks have been seen; with none they look
            persistent.
        explanation: why these belong together, or why nothing does.
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
    """Makes a profile of the reference iteration of `steady`.

    Sizes are the largest, and lifetimes the longest, over the members with as many requests: those
    with fewer are paired by similarity, so now and then with the wrong row, and are only asked
    about lifetimes of which the others know nothing. A block that no member frees, or that outlives
    two periods, is persistent. A block that any member shares between streams is shared.

    Args:
        iterations: all that were recorded, from `split`.
        steady: from `find_steady` or `best_effort`.
        tags: what the tags of the iterations index.
        meta: goes into the profile.
        alone: whether sizes and lifetimes are those of the reference alone. The others only show
            what it leaves alive.

    Raises:
        ProfileError: when `steady` does not belong to `iterations`.
    """
    check_belongs(steady, iterations)
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
        tag=_tags(iterations, steady, end),
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


def check_belongs(steady: Steady, iterations: list[Iteration]) -> None:
    """Refuses a steady state of another recording.

    Raises:
        ProfileError: when it names iterations that are not there.
    """
    if not 0 <= steady.reference < len(iterations) or max(steady.rows) >= len(iterations):
        raise ProfileError(
            f"the steady state names iteration {max(steady.rows)} of {len(iterations)}; "
            "find it in the same recording"
        )


def _order(iterations: list[Iteration], steady: Steady, members: list[int]) -> Order | None:
    """That of the reference, which looks back at the members before it."""
    if steady.reference not in members:
        return None
    return order_of([iterations[one] for one in members], members.index(steady.reference))


def _shared(iterations: list[Iteration], steady: Steady) -> NDArray[np.bool_]:
    """Rows whose block some member uses on several streams."""
    shared = iterations[steady.reference].shared.copy()
    for index, rows in steady.rows.items():
        shared[rows[iterations[index].shared & (rows != UNPAIRED)]] = True
    return shared


def _ends(iterations: list[Iteration], steady: Steady, counted: list[int]) -> NDArray[np.int64]:
    """Return the longest end of each row in the iterations that are counted.

    In ticks since its own iteration began, or `NEVER`.
    """
    ticks = len(iterations[steady.reference])
    members = sorted(steady.rows)
    clock = _Clock(iterations, steady, ticks)
    start = np.arange(ticks)
    ends = np.zeros((2, ticks), np.int64)  # told by members of full length, and by shorter ones
    outlived = np.zeros(ticks, np.bool_)
    for turn, index in enumerate(members):
        if index not in counted:
            continue
        rows, gone = steady.rows[index], iterations[index].gone
        told = ends[int(len(rows) < ticks)]
        known = (rows != UNPAIRED) & (gone != ALIVE)
        row = rows[known]
        told[row] = np.maximum(told[row], clock.at(gone[known]) - turn * ticks)
        # Not freed while two whole periods passed: nothing that was recorded will free it.
        alive = rows[(rows != UNPAIRED) & (gone == ALIVE)]
        outlived[alive] |= (len(members) - turn) * ticks > start[alive] + 2 * ticks
    end = np.where(ends[0] > 0, ends[0], ends[1])
    forever = (end == 0) | outlived | (end > start + 2 * ticks)
    return np.where(forever, NEVER, end)


class _Clock:
    """Turns "before request number g of the recording" into ticks since the first member began."""

    def __init__(self, iterations: list[Iteration], steady: Steady, ticks: int) -> None:
        members = sorted(steady.rows)
        self._last = np.array([it.first + len(it) for it in iterations])
        self._first = np.array([it.first for it in iterations])
        self._is_member = is_among(np.arange(len(iterations)), members)
        # Members that began up to and including each iteration; the table holds, member by member,
        # the tick of each local position: that of the next request with a place in the reference.
        self._begun = np.cumsum(self._is_member)
        self._ticks = ticks
        tables = [_next_row(steady.rows[index], ticks) for index in members]
        self._table = np.concatenate(tables)
        offsets = np.cumsum([0] + [len(table) for table in tables[:-1]])
        self._offset = np.zeros(len(iterations), np.int64)
        self._offset[members] = offsets

    def at(self, request: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ticks, shape of `request`; at the boundary of two iterations the earlier one counts."""
        inside = np.searchsorted(self._last, request, side="left")
        local = request - self._first[inside]
        member = self._is_member[inside]
        position = np.where(member, self._offset[inside] + local, 0)
        within = np.where(member, self._table[position], self._ticks)
        ticks: NDArray[np.int64] = (self._begun[inside] - 1) * self._ticks + within
        return ticks


def _next_row(rows: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """For each local position 0..n the first reference ordinal at or after it."""
    filled = np.append(np.where(rows == UNPAIRED, ticks, rows), ticks)
    return np.minimum.accumulate(filled[::-1])[::-1]


def _tags(iterations: list[Iteration], steady: Steady, end: NDArray[np.int64]) -> NDArray[np.int32]:
    """The tags of the reference's requests, carried over from the iteration that has them."""
    reference = iterations[steady.reference]
    tag = np.full(len(reference), -1, np.int32)
    # Not by requests: one that compiles has many, all of them by "torch.compile".
    tagged = [len(distinct(one.tag[one.tag >= 0])) for one in iterations]
    order = sorted(range(len(iterations)), key=lambda i: (i in steady.rows, tagged[i]))
    tags_from = next((index for index in reversed(order) if tagged[index]), steady.reference)
    source = iterations[tags_from]
    rows = steady.rows.get(tags_from)
    is_strange = rows is None
    born = source.gone == ALIVE
    if tags_from == 0 and len(source) != len(reference) and born.any() and (end != NEVER).all():
        # Optimizer state is born there, beside temporaries of the same sizes, which go on.
        source, rows = only(source, ~born), None
    rows = align(reference, source) if rows is None else rows
    paired = rows != UNPAIRED
    if is_strange and not _is_alike(reference, source, rows):
        return tag
    tag[rows[paired]] = source.tag[paired]
    return lend_tags(tag)


def _is_alike(reference: Iteration, other: Iteration, rows: NDArray[np.int64]) -> bool:
    """Return whether two iterations share four in five requests, half of them at equal sizes."""
    paired = rows != UNPAIRED
    equal = reference.size[rows[paired]] == other.size[paired]
    enough = 5 * paired.sum() >= 4 * min(len(reference), len(other))
    return bool(enough and 2 * equal.sum() >= len(equal))


def only(iteration: Iteration, wanted: NDArray[np.bool_]) -> Iteration:
    """Some of the requests of an iteration, whose frees keep the numbers that they have."""
    names = ("size", "stream", "thread", "tag", "gone", "shared", "in_gap")
    kept = {name: getattr(iteration, name)[wanted] for name in names}
    return replace(iteration, rows=None, **kept)


def lend_tags(tag: NDArray[np.int32]) -> NDArray[np.int32]:
    """Gives requests that were not seen with tags the tag of the next one that was.

    They are the numbers that an operator wraps into tensors before it asks for its result: with a
    dispatch mode active they are wrapped elsewhere.
    """
    known = np.flatnonzero(tag >= 0)
    if not known.size:
        return tag
    following = np.searchsorted(known, np.arange(len(tag)))
    return tag[known[np.minimum(following, len(known) - 1)]]
