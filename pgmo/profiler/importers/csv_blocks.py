"""Importer of tables of blocks with lifetimes, a format for allocator benchmarks.

    id,lower,upper,size          one row per block, lifetime [lower, upper), size in bytes;
    0,0,12,4096                  columns in any order, further columns have no effect;
    1,3,9,512                    `alignment`, in bytes, is optional

Times may have any unit. The format is that of MiniMalloc (google/minimalloc).
"""

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import FileError, ProfileError
from pgmo.profiler.importers.contents import text_of
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace

NEEDED = ("id", "lower", "upper", "size")
OFFSET = "offset"
MOST = 2**62
"""Largest accepted time, and largest accepted sum of sizes in bytes."""

_MOST_COLUMNS = 256  # Limits memory: each written row has all columns, even if its line was short.


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Content of a table of blocks; columns of shape (n,), one row per block.

    Args:
        size: size in bytes.
        lower: first time at which each block is live.
        upper: first time at which each block is no longer live.
        alignment: bytes, the least common multiple of all rows' alignments; 1 without alignments.
        header, rows, newline: the original text.
    """

    size: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    alignment: int
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    newline: str


def read_lifetimes(path: str | os.PathLike[str]) -> Lifetimes:
    """Read a file with the columns id, lower, upper, size and optionally alignment.

    Raises:
        FileError: when the file cannot be read, or its header or a value is invalid.
    """
    path = Path(path)
    text = text_of(path)
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = tuple(name.strip() for name in next(lines, ()))
        place = _columns(path, header)
        return _table(path, header, place, lines, "\r\n" if "\r\n" in text else "\n")
    except csv.Error as error:
        raise FileError(f"{path}, line {lines.line_num}: {error}; correct this line") from error


def read_csv_blocks(path: Path) -> Imported:
    """Read a table as a linear profile, in which blocks are requested in the order of `lower`.

    Raises:
        FileError: as `read_lifetimes`, and when the table has no rows or does not fit a profile.
    """
    read = read_lifetimes(path)
    if not len(read.size):
        raise FileError(f"{path}: lists no blocks below its header; add a line for each block")
    order = np.argsort(read.lower, kind="stable")
    lower = read.lower[order]
    try:
        table = Profile.from_columns(
            size=read.size[order],
            start=np.arange(len(order)),
            end=np.searchsorted(lower, read.upper[order], side="left"),
            ticks=len(order),
            circular=False,
            steady=False,
        )
    except ProfileError as error:
        raise FileError(f"{path}: {error}") from error
    notes = {"blocks": f"{len(table)} from a table"}
    if read.alignment > 1:
        notes["alignment"] = f"{read.alignment} bytes; use pgmo plan --alignment {read.alignment}"
    return Imported(Trace.from_columns(kind=[], address=[], size=[]), notes=notes, table=table)


def _columns(path: Path, header: tuple[str, ...]) -> dict[str, int]:
    if len(header) > _MOST_COLUMNS:
        raise FileError(
            f"{path}, line 1: has {len(header)} columns, and the most is {_MOST_COLUMNS}; remove "
            "some of them"
        )
    for name in NEEDED:
        if name not in header:
            found = ",".join(header)[:80]
            raise FileError(
                f"{path}, line 1: no column {name!r} in {found!r}; begin with a header line "
                f"{','.join(NEEDED)}"
            )
    for name in (*NEEDED, "alignment", OFFSET):
        if header.count(name) > 1:
            raise FileError(f"{path}, line 1: {header.count(name)} columns {name!r}; keep one")
    return {name: place for place, name in enumerate(header)}


def _table(
    path: Path,
    header: tuple[str, ...],
    place: dict[str, int],
    lines: Iterator[list[str]],
    newline: str,
) -> Lifetimes:
    at_lower, at_upper, at_size = place["lower"], place["upper"], place["size"]
    at_alignment = place.get("alignment")
    needed = 1 + max(place[name] for name in NEEDED)
    rows: list[list[str]] = []
    numbers: list[int] = []
    alignment, total = 1, 0
    for row in lines:
        if not row or not any(cell.strip() for cell in row):
            continue
        line: int = lines.line_num  # type: ignore[attr-defined]
        if len(row) < needed:
            _refuse(path, line, f"{','.join(row)[:80]!r} has {len(row)} cells of {len(header)}")
        lower = _number(path, line, "lower", row[at_lower], 0)
        upper = _number(path, line, "upper", row[at_upper], 0)
        size = _number(path, line, "size", row[at_size], 1)
        if upper <= lower:
            _refuse(path, line, f"upper is {upper}, not above lower, which is {lower}")
        if at_alignment is not None and at_alignment < len(row) and row[at_alignment].strip():
            own = _number(path, line, "alignment", row[at_alignment], 1)
            alignment = math.lcm(alignment, own)
            if alignment > 2**40:
                problem = (
                    f"alignment is {own}: the rows' least common multiple is {alignment} bytes"
                )
                _refuse(path, line, f"{problem}, must be up to 2**40")
        total += size
        if total > MOST:
            _refuse(path, line, f"size is {size}: the sizes add up to {total}, beyond 2**62")
        rows.append(row)
        numbers += (size, lower, upper)
    columns = np.array(numbers, np.int64).reshape(-1, 3).T
    return Lifetimes(columns[0], columns[1], columns[2], alignment, header, rows, newline)


def _number(path: Path, line: int, name: str, text: str, low: int) -> int:
    text = text.strip()
    if not re.fullmatch("[+-]?[0-9]+", text):
        _refuse(path, line, f"{name} is {text[:80]!r}, not a whole number")
    value = int(text) if len(text) <= 100 else MOST + 1
    if not low <= value <= MOST:
        _refuse(path, line, f"{name} is {text[:80]}, must be from {low} to 2**62")
    return value


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise FileError(f"{path}, line {line}: {what}; correct this line")
