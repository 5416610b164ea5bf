"""Export to CSV: one line per block, sizes in bytes, times in ticks."""

import csv
from typing import TextIO

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag

_NUMBERS = ("size", "start", "end", "stream")
_PROFILE = (*_NUMBERS, "varying", "shared", "ordinal", "thread", "address", "tag")
_PLAN = (*_NUMBERS, "varying", "shared", "offset", "alternate")
_ORIGIN = ("module", "op", "phase", "file")
_NOTHING = {"end": NEVER, "address": 0, "tag": -1, "offset": UNPLANNED, "alternate": UNPLANNED}
"""Value by which a column marks missing data."""


def write_spreadsheet(source: Profile | Plan, out: TextIO) -> None:
    """Write a header and one line per block: true as 1, false as 0, a missing value as empty.

    A block that is never freed has no `end`.
    """
    names, origin = (_PLAN, ()) if isinstance(source, Plan) else (_PROFILE, _ORIGIN)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("block", *names, *origin))
    columns = [getattr(source, name).tolist() for name in names]
    for number, values in enumerate(zip(*columns, strict=True)):
        row = dict(zip(names, map(int, values), strict=True))
        cells = ("" if value == _NOTHING.get(name) else value for name, value in row.items())
        texts: list[str] = []
        if isinstance(source, Profile):
            tag = source.tags[row["tag"]] if row["tag"] >= 0 else Tag("", "", "")
            texts = [getattr(tag, name) for name in origin]
        writer.writerow((number, *cells, *texts))
