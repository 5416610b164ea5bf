"""Packing problems as CSV files, a common format of allocator benchmarks.

The input is the table of `pgmo.profiler.importers.csv_blocks`: id,lower,upper,size. The output is
the same table with a column `offset`.
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
    """Problem from a CSV file, with the original header, cells and line end.

    The problem's alignment is the least common multiple of the rows' alignments.
    """

    problem: Problem
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    newline: str = "\n"


def read_csv(path: str | os.PathLike[str]) -> BlockTable:
    """Read a file with the columns id, lower, upper, size and optionally alignment.

    Raises:
        FileError: when the file cannot be read, or its header or a value is invalid.
    """
    read = read_lifetimes(path)
    try:
        problem = Problem(read.size, read.lower, read.upper, alignment=read.alignment)
    except ProblemError as error:
        raise FileError(f"{Path(path)}: {error}") from error
    return BlockTable(problem, read.header, read.rows, read.newline)


def write_csv(table: BlockTable, offset: NDArray[np.int64], path: str | os.PathLike[str]) -> None:
    """Write the table with a column of offsets in bytes. An existing file is replaced.

    Raises:
        FileError: when the file cannot be written.
    """
    header, places = list(table.header), offset.tolist()
    new = OFFSET not in header
    if new:
        header.append(OFFSET)
    at = header.index(OFFSET)  # Overwrite an existing column, which has earlier results.
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=table.newline)
    writer.writerow(header)
    for row, place in zip(table.rows, places, strict=True):
        cells = [*row[:at], *[""] * (at - len(row)), place, *row[at + (not new) :]]
        writer.writerow(cells)
    replace_file(Path(path), out.getvalue().encode())
