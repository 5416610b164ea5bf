"""The CSV of google/minimalloc, in which packing problems are exchanged: id,lower,upper,size.

Its time is a line, so the circle of an iteration is cut open before its first request:

    |--[==== inside ====)------------|        12
    |=== 13.1 ==)--------[=== 13 ====|        13 lives into the next iteration: two pieces

Nothing there says that the pieces of a block lie at one place, so an answer to the problem may be
smaller than what a plan needs. What has no place in the arena is left out: persistent blocks and
those that several streams use.
"""

import csv
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import NEVER, Profile
from pgmo.report.exporters.lanes import slots_in_one_turn

_Column = NDArray[np.int64]


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
    lower, upper, row, offset = slots_in_one_turn(source, np.flatnonzero(chosen))
    order = np.argsort(row, kind="stable")
    row = row[order]
    number = np.arange(len(row)) - np.searchsorted(row, row)  # of the pieces of one block
    size = -(-source.size[row] // alignment) * alignment
    columns = [row, number, lower[order], upper[order], size, *([offset[order]] if is_plan else [])]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "lower", "upper", "size", *(["offset"] if is_plan else [])])
    for block, piece, *cells in zip(*(column.tolist() for column in columns), strict=True):
        writer.writerow([f"{block}.{piece}" if piece else str(block), *cells])
    lone = len(streams) if stream is None else 1
    return _notes(source, row[number > 0], left_out, lone, alignment)


def _notes(
    source: Profile | Plan, rows: _Column, left_out: int, streams: int, alignment: int
) -> list[str]:
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
