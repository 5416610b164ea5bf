"""Validation of plans by a sweep over time, independent of the planner's code."""

from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import distinct
from pgmo.errors import PlanError
from pgmo.packing.plan import UNPLANNED, Plan

_NEVER = -1


def validate(plan: Plan) -> None:
    """Check that no two live blocks share a byte, and the other assumptions of replay below.

    Every slot must be inside the arena, at a multiple of the alignment, and not partly spilled.
    Persistent and shared blocks must have no slot. Blocks that live longer than a period must have
    two slots, and all other blocks one. Streams must use disjoint ranges, in device memory and in
    spilled memory. Live blocks must not overlap, including those of the previous iteration.
    Validation takes O(n log n) for most plans, about 3 seconds for a million blocks.

    Args:
        plan: any plan, including one read from a file.

    Raises:
        PlanError: when a rule is broken; the message names the first row or overlapping pair.
    """
    _check_rows(plan)
    _check_streams(plan)
    _check_overlap(plan)


def _check_rows(plan: Plan) -> None:
    size, start, end, arena = plan.size, plan.start, plan.end, plan.arena
    if plan.alignment < 1:
        _fail(f"the alignment is {plan.alignment}; it must be above 0")
    if plan.arena < 0 or plan.ticks < 0:
        _fail(f"the arena has {arena} bytes and the iteration {plan.ticks} ticks; give 0 or more")
    _need(size > 0, "size", size, "above 0")
    _need((start >= 0) & (start < plan.ticks), "start", start, f"from 0 to below {plan.ticks}")
    grows = (plan.shorter >= 0) & (plan.shorter <= size)
    _need(grows, "shorter", plan.shorter, "from 0 to the size")
    persistent = end == _NEVER
    last = start + 2 * plan.ticks if plan.circular else np.full_like(end, plan.ticks)
    _need(persistent | (end > start), "end", end, "above the start, or -1 if persistent")
    most = "two periods after the start" if plan.circular else f"{plan.ticks}"
    _need(end <= last, "end", end, f"at most {most}")
    planned = ~persistent & ~plan.shared
    twice = planned & (end - start > plan.ticks)
    for name, column, needed in (
        ("offset", plan.offset, planned),
        ("alternate", plan.alternate, twice),
    ):
        _need(needed | (column == UNPLANNED), name, column, "-1: this block needs no such slot")
        inside = (column >= 0) & (column <= arena - size)
        _need(~needed | inside, name, column, f"from 0 to the arena of {arena} bytes minus size")
        aligned = column % plan.alignment == 0
        _need(~needed | aligned, name, column, f"a multiple of the alignment {plan.alignment}")
        whole = (column >= plan.resident) | (column + size <= plan.resident)
        _need(
            ~needed | whole,
            name,
            column,
            f"so that the block is wholly below or above {plan.resident}, the spilled part's start",
        )


def _check_streams(plan: Plan) -> None:
    """Check that the ranges of streams are disjoint, because streams are not ordered in time."""
    slots = plan.offset != UNPLANNED
    for planned in (slots & (plan.offset < plan.resident), slots & (plan.offset >= plan.resident)):
        _check_part(plan, planned)


def _check_part(plan: Plan, planned: NDArray[np.bool_]) -> None:
    streams = distinct(plan.stream[planned])
    if len(streams) < 2:
        return
    hulls = []
    for stream in streams:
        rows = np.flatnonzero(planned & (plan.stream == stream))
        two = rows[plan.alternate[rows] != UNPLANNED]
        low = min(plan.offset[rows].min(), plan.alternate[two].min(initial=plan.arena))
        high = max(
            (plan.offset[rows] + plan.size[rows]).max(),
            (plan.alternate[two] + plan.size[two]).max(initial=0),
        )
        hulls.append((int(low), int(high), int(stream)))
    hulls.sort()
    for below, above in pairwise(hulls):
        if above[0] < below[1]:
            _fail(
                f"the ranges of streams {below[2]} and {above[2]} overlap: [{below[0]}, "
                f"{below[1]}) and [{above[0]}, {above[1]})"
            )


def _check_overlap(plan: Plan) -> None:
    begin, end, low, row = _pieces(plan)
    met = _core.first_overlap(begin, end, low, low + plan.size[row])
    if met:
        piece, other = met
        _fail_overlap(plan, row, other, piece, begin, low)


_Column = NDArray[np.int64]


def _pieces(plan: Plan) -> tuple[_Column, _Column, _Column, _Column]:
    """Return begin, end, offset and row of the occupied intervals of slots within [0, ticks).

    A wrapping block occupies its slot at the iteration's end and beginning. If a block lives longer
    than `ticks`, both of its slots are occupied all the time: iterations use them alternately.
    """
    ticks = plan.ticks
    planned = (plan.end != _NEVER) & ~plan.shared
    twice = planned & (plan.end - plan.start > ticks)
    once = np.flatnonzero(planned & ~twice)
    wrapping = once[plan.end[once] > ticks]
    two = np.flatnonzero(twice)
    whole = np.full(2 * len(two), ticks, np.int64)
    return (
        np.concatenate([plan.start[once], np.zeros(len(wrapping) + len(whole), np.int64)]),
        np.concatenate([np.minimum(plan.end[once], ticks), plan.end[wrapping] - ticks, whole]),
        np.concatenate(
            [plan.offset[once], plan.offset[wrapping], plan.offset[two], plan.alternate[two]]
        ),
        np.concatenate([once, wrapping, two, two]),
    )


def _fail_overlap(
    plan: Plan, row: _Column, first: int, second: int, begin: _Column, low: _Column
) -> NoReturn:
    rows = sorted(((int(row[first]), int(low[first])), (int(row[second]), int(low[second]))))
    places = [
        f"[{offset}, {offset + int(plan.size[r])}) of block {r}, alive in "
        f"[{plan.start[r]}, {plan.end[r]})"
        for r, offset in rows
    ]
    _fail(
        f"blocks {rows[0][0]} and {rows[1][0]} overlap at tick {begin[second]}: "
        f"{places[0]}, and {places[1]}"
    )


def _need(good: NDArray[np.bool_], name: str, column: _Column, wanted: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        _fail(f"row {row}: {name} is {column[row]}, must be {wanted}")


def _fail(what: str) -> NoReturn:
    raise PlanError(f"{what}; make the plan again from its profile")
