"""Export to CSV: one line per block, with the columns of `block_rows`."""

import csv
from typing import TextIO

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.report.exporters.rows import block_rows, column_names


def write_spreadsheet(source: Profile | Plan, out: TextIO) -> None:
    """Write a header and one line per block; true is 1, false 0, and a missing value is empty.

    Example:
        >>> import sys
        >>> from pgmo.packing.planner import plan
        >>> profile = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1)
        >>> write_spreadsheet(plan(profile), sys.stdout)
        block,size,start,end,stream,varying,shared,offset,alternate
        0,8,0,1,0,0,0,0,
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column_names(source))
    for row in block_rows(source):
        writer.writerow(int(cell) if isinstance(cell, bool) else cell for cell in row.values())
