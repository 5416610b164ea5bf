"""Packing problems as CSV, the form in which allocators' benchmarks are exchanged.

    id,lower,upper,size          one row a block, lifetime [lower, upper), size in bytes;
    0,0,12,4096                  columns in any order, more of them are kept and ignored;
    1,3,9,512                    `alignment`, in bytes, is optional

The answer is the same table with a column `offset`. (MiniMalloc's format, google/minimalloc.)
"""

import csv
import io
import math
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pgmo.archive import replace_file
from pgmo.errors import FileError, ProblemError
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.problem import MAX_SUM, Problem

_NEEDED = ("id", "lower", "upper", "size")
_OFFSET = "offset"


@dataclass(frozen=True, eq=False)
class BlockTable:
    """A CSV file of blocks: the problem that it states, and its cells as they were.

    Args:
        problem: its rows, in order. Where rows differ in alignment, every offset gets one that
            suits them all.
        header: the names of the columns.
        rows: the cells of each block.
        newline: what ends a line.
    """

    problem: Problem
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    newline: str = "\n"


def read_csv(path: str | os.PathLike[str]) -> BlockTable:
    """Reads a file with the columns id, lower, upper, size and perhaps alignment.

    Lines end in LF or CRLF; empty ones are passed over.

    Raises:
        FileError: when it cannot be read, or naming the line, the value and what is wrong with it.

    Example:
        >>> try:
        ...     read_csv("/no/such/file.csv")
        ... except FileError as error:
        ...     print(error)
        /no/such/file.csv: cannot be read (No such file or directory); check the path
    """
    path = Path(path)
    text = _load(path)
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = tuple(name.strip() for name in next(lines, ()))
        place = _columns(path, header)
        return _table(path, header, place, lines, "\r\n" if "\r\n" in text else "\n")
    except csv.Error as error:
        raise FileError(f"{path}, line {lines.line_num}: {error}; correct this line") from error


def write_csv(table: BlockTable, offset: NDArray[np.int64], path: str | os.PathLike[str]) -> None:
    """Writes the table with a column `offset`, bytes, shape (n,); a file there is replaced.

    Raises:
        FileError: when it cannot be written.

    Example:
        >>> table = BlockTable(Problem([8], [0], [1]), ("id", "size"), [["a", "8"]])
        >>> write_csv(table, np.array([0]), "a.plan.csv")  # doctest: +SKIP
    """
    header, places = list(table.header), offset.tolist()
    if _OFFSET in header:  # the answer to an earlier question
        at = header.index(_OFFSET)
    else:
        at = len(header)
        header.append(_OFFSET)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=table.newline)
    writer.writerow(header)
    for row, place in zip(table.rows, places, strict=True):
        cells = [*row[:at], *[""] * (at - len(row)), place, *row[at + 1 :]]
        writer.writerow(cells)
    replace_file(Path(path), out.getvalue().encode())


def table_of_plan(plan: Plan) -> tuple[BlockTable, NDArray[np.int64]]:
    """A plan's blocks as a table, and their offsets: one line for each slot.

    The id is the row in the plan; a block that outlives a period has two lines, each for the whole
    period, and an `upper` beyond the period lies in the next one. Blocks without a slot are left
    out.

    Example:
        >>> from pgmo.packing.portfolio import plan
        >>> from pgmo.profiler.profile import Profile
        >>> table, offset = table_of_plan(
        ...     plan(Profile.from_columns(size=[8, 9], start=[0, 1], end=[3, 2], ticks=2))
        ... )
        >>> [row[0] for row in table.rows], offset.tolist()
        (['0', '0', '1'], [0, 64, 128])
    """
    first = np.flatnonzero(plan.offset != UNPLANNED)
    second = np.flatnonzero(plan.alternate != UNPLANNED)
    ids = np.concatenate([first, second])
    offset = np.concatenate([plan.offset[first], plan.alternate[second]])
    order = np.argsort(ids, kind="stable")
    ids, offset = ids[order], offset[order]
    twice = plan.alternate[ids] != UNPLANNED
    problem = Problem(
        plan.size[ids],
        np.where(twice, 0, plan.start[ids]),
        np.where(twice, plan.ticks, plan.end[ids]),
        period=plan.ticks if plan.circular else 0,
        alignment=plan.alignment,
    )
    columns = (ids, problem.lower, problem.upper, problem.size)
    rows = [[str(cell) for cell in row] for row in zip(*(c.tolist() for c in columns), strict=True)]
    return BlockTable(problem, _NEEDED, rows), offset


def _load(path: Path) -> str:
    try:
        # Asked before it is opened: to open a pipe would wait for its writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileError(f"{path}: is not a regular file; check the path")
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path}: is not text (byte {error.start} is 0x{error.object[error.start]:02x}); "
            "give a CSV file in UTF-8"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read ({reason}); check the path") from error


def _columns(path: Path, header: tuple[str, ...]) -> dict[str, int]:
    for name in _NEEDED:
        if name not in header:
            found = ",".join(header)[:80]
            raise FileError(
                f"{path}, line 1: no column {name!r} in {found!r}; begin with a header line "
                f"{','.join(_NEEDED)}"
            )
    for name in (*_NEEDED, "alignment", _OFFSET):
        if header.count(name) > 1:
            raise FileError(f"{path}, line 1: {header.count(name)} columns {name!r}; keep one")
    return {name: place for place, name in enumerate(header)}


def _table(
    path: Path,
    header: tuple[str, ...],
    place: dict[str, int],
    lines: Iterator[list[str]],
    newline: str,
) -> BlockTable:
    at_lower, at_upper, at_size = place["lower"], place["upper"], place["size"]
    at_alignment = place.get("alignment")
    needed = 1 + max(place[name] for name in _NEEDED)
    rows: list[list[str]] = []
    numbers: list[int] = []
    alignment = 1
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
                _refuse(path, line, f"alignment is {own}, in all no less than {alignment} bytes")
        rows.append(row)
        numbers += (size, lower, upper)
    columns = np.array(numbers, np.int64).reshape(-1, 3).T
    try:
        problem = Problem(columns[0], columns[1], columns[2], alignment=alignment)
    except ProblemError as error:
        raise FileError(f"{path}: {error}") from error
    return BlockTable(problem, header, rows, newline)


def _number(path: Path, line: int, name: str, text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or "_" in text:
        _refuse(path, line, f"{name} is {text[:80]!r}, not a whole number")
    if not low <= value <= MAX_SUM:
        _refuse(path, line, f"{name} is {text.strip()[:80]}, must be from {low} to 2**62")
    return value


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise FileError(f"{path}, line {line}: {what}; correct this line")
