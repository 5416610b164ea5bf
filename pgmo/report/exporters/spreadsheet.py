"""Export to CSV: one line per block, with the columns of `block_rows`."""

import csv
from typing import TextIO

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.report.exporters.rows import block_rows, column_names


def write_spreadsheet(source: Profile | Plan, out: TextIO) -> None:
    """Write a header and one line per block: true as 1, false as 0, a missing value as empty."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column_names(source))
    for row in block_rows(source):
        writer.writerow(int(cell) if isinstance(cell, bool) else cell for cell in row.values())
