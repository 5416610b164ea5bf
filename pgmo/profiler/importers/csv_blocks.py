"""Tables of blocks with lifetimes, id,lower,upper,size: allocators' benchmarks.

They are in any unit of time. Ticks count requests, in the order of `lower`; which blocks are alive
together stays the same.
"""

from pathlib import Path

import numpy as np

from pgmo.errors import FileError, ProfileError
from pgmo.lifetimes_csv import read_lifetimes
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace


def read_csv_blocks(path: Path) -> Imported:
    """Reads a table.

    Raises:
        FileError: naming the line, the value and what is wrong with it.

    Example:
        >>> read_csv_blocks(Path("blocks.csv")).table.ticks  # doctest: +SKIP
        2
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
        notes["alignment"] = f"{read.alignment} bytes in the table; pass it to pgmo plan"
    return Imported(Trace.from_columns(kind=[], address=[], size=[]), notes=notes, table=table)
