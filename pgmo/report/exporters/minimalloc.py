"""The CSV of google/minimalloc, in which packing problems are exchanged: id,lower,upper,size.

Its time is a line, so the circle of an iteration is cut open before its first request:

    |--[==== inside ====)------------|        12
    |=== 13.1 ==)--------[=== 13 ====|        13 lives into the next iteration: two pieces

Nothing there says that the pieces of a block lie at one place, so an answer to the problem may be
smaller than what a plan needs. What has no place in the arena is left out: persistent blocks and
those that several streams use.
"""

import csv
from dataclasses import dataclass
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER, Profile

_Column = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Stays of slots on the line, all of shape (p,): `number` counts those of one block."""

    row: _Column
    number: _Column
    lower: _Column
    upper: _Column
    offset: _Column


def write_minimalloc(
    source: Profile | Plan, out: TextIO, *, alignment: int | None = None, stream: int | None = None
) -> list[str]:
    """Writes the blocks that want a place; sizes are rounded up to the alignment.

    Args:
        source: a plan has a column `offset` besides.
        out: where to.
        alignment: in bytes; by default a plan's own, 64 for a profile as in `pgmo.plan`.
        stream: the stream whose blocks to write; by default all.

    Returns:
        What somebody who solves the problem should know.

    Raises:
        OptionError: when nothing is left, or a plan is given with another alignment than its own.

    Example:
        >>> import sys
        >>> profile = Profile.from_columns(size=[64, 8], start=[0, 1], end=[1, 3], ticks=2)
        >>> write_minimalloc(profile, sys.stdout)[0]
        id,lower,upper,size
        0,0,1,64
        1,1,2,64
        1.1,0,1,64
        '1 block lives into the next iteration and is cut into two pieces'
    """
    is_plan = isinstance(source, Plan)
    own = source.alignment
    alignment = own if alignment is None else alignment
    if alignment < 1 or (is_plan and alignment != own):
        raise OptionError(
            f"the alignment cannot be {alignment}: "
            + (f"this plan's offsets are multiples of {own}" if is_plan else "give 1 or more bytes")
        )
    chosen = (source.end != NEVER) & ~source.shared
    left_out = int((~chosen).sum())
    streams = np.unique(source.stream[chosen])
    if stream is not None:
        chosen &= source.stream == np.uint64(stream)
    if not chosen.any():
        named = "" if stream is None else f" on stream {stream} (streams: {streams.tolist()})"
        raise OptionError(f"there is no block to place{named}; look at them with `pgmo stats`")
    pieces = _cut_open(source, np.flatnonzero(chosen))
    size = -(-source.size[pieces.row] // alignment) * alignment
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "lower", "upper", "size", *(["offset"] if is_plan else [])])
    for row, number, lower, upper, one, offset in zip(
        *(column.tolist() for column in (pieces.row, pieces.number, pieces.lower, pieces.upper)),
        size.tolist(),
        pieces.offset.tolist(),
        strict=True,
    ):
        name = f"{row}.{number}" if number else str(row)
        writer.writerow([name, lower, upper, one, *([offset] if is_plan else [])])
    return _notes(source, pieces, left_out, len(streams) if stream is None else 1, alignment)


def _cut_open(source: Profile | Plan, rows: _Column) -> _Pieces:
    """The pieces of some rows, in the order of the rows.

    A block that outlives a period has two slots, each taken for the whole period.
    """
    ticks = source.ticks
    start, end = source.start[rows], source.end[rows]
    twice = end - start > ticks
    wraps = ~twice & (end > ticks)
    offset = source.offset if isinstance(source, Plan) else np.full(len(source), UNPLANNED)
    other = source.alternate if isinstance(source, Plan) else offset
    first = (
        rows,
        np.zeros_like(rows),
        np.where(twice, 0, start),
        np.where(twice, ticks, np.minimum(end, ticks)),
        offset[rows],
    )
    two = rows[twice | wraps]
    second = (
        two,
        np.ones_like(two),
        np.zeros_like(two),
        np.where(twice, ticks, end - ticks)[twice | wraps],
        np.where(twice, other[rows], offset[rows])[twice | wraps],
    )
    columns = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return _Pieces(*(column[order] for column in columns))


def _notes(
    source: Profile | Plan, pieces: _Pieces, left_out: int, streams: int, alignment: int
) -> list[str]:
    rows = pieces.row[pieces.number > 0]
    twice = int((source.end[rows] - source.start[rows] > source.ticks).sum())
    notes = []
    if len(rows) > twice:
        notes.append(
            f"{_blocks(len(rows) - twice, 'lives', 'live')} into the next iteration and "
            f"{'is' if len(rows) - twice == 1 else 'are'} cut into two pieces"
        )
    if twice:
        notes.append(f"{_blocks(twice, 'outlives', 'outlive')} a period: two whole slots each")
    if left_out:
        notes.append(f"{_blocks(left_out, 'is', 'are')} persistent or shared and left out")
    if streams > 1:
        notes.append(
            f"the blocks of {streams} streams are in one problem, but may not share bytes; "
            "choose one with --stream"
        )
    if alignment > 1:
        notes.append(f"sizes are rounded up to {alignment} bytes")
    return notes


def _blocks(count: int, one: str, many: str) -> str:
    return f"1 block {one}" if count == 1 else f"{count} blocks {many}"
