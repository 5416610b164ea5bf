"""Packing problems as CSV, the form in which allocators' benchmarks are exchanged.

The table is that of `pgmo.profiler.importers.csv_blocks`, id,lower,upper,size; the answer is the
same table with a column `offset`.
"""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import FileError, ProblemError
from pgmo.files.replacement import replace_file
from pgmo.packing.problem import Problem
from pgmo.profiler.importers.csv_blocks import OFFSET, read_lifetimes


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

    Raises:
        FileError: when it cannot be read, or naming the line, the value and what is wrong with it.

    Example:
        >>> try:
        ...     read_csv("/no/such/file.csv")
        ... except FileError as error:
        ...     print(error)
        /no/such/file.csv: cannot be read (No such file or directory); check the path
    """
    read = read_lifetimes(path)
    try:
        problem = Problem(read.size, read.lower, read.upper, alignment=read.alignment)
    except ProblemError as error:
        raise FileError(f"{Path(path)}: {error}") from error
    return BlockTable(problem, read.header, read.rows, read.newline)


def write_csv(table: BlockTable, offset: NDArray[np.int64], path: str | os.PathLike[str]) -> None:
    """Writes the table with a column `offset`, bytes, shape (n,); a file there is replaced.

    Raises:
        FileError: when it cannot be written.

    Example:
        >>> table = BlockTable(Problem([8], [0], [1]), ("id", "size"), [["a", "8"]])
        >>> write_csv(table, np.array([0]), "a.plan.csv")
    """
    header, places = list(table.header), offset.tolist()
    new = OFFSET not in header
    if new:
        header.append(OFFSET)
    at = header.index(OFFSET)  # if not new, the answer to an earlier question
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=table.newline)
    writer.writerow(header)
    for row, place in zip(table.rows, places, strict=True):
        cells = [*row[:at], *[""] * (at - len(row)), place, *row[at + (not new) :]]
        writer.writerow(cells)
    replace_file(Path(path), out.getvalue().encode())
