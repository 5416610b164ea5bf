"""Blocks of a profile or a plan as plain rows."""

from collections.abc import Iterator

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag

Cell = int | str | bool | None
NO_ORIGIN = Tag("", "", "")

_NUMBERS = ("size", "start", "end", "stream")
_PROFILE = (*_NUMBERS, "varying", "shared", "ordinal", "thread", "address", "tag")
_PLAN = (*_NUMBERS, "varying", "shared", "offset", "alternate")
_ORIGIN = ("module", "op", "phase", "file")
_NOTHING = {"end": NEVER, "address": 0, "tag": -1, "offset": UNPLANNED, "alternate": UNPLANNED}
"""Value by which a column marks missing data."""


def column_names(source: Profile | Plan) -> tuple[str, ...]:
    """Return the columns of `block_rows`, in order."""
    return ("block", *_PLAN) if isinstance(source, Plan) else ("block", *_PROFILE, *_ORIGIN)


def block_rows(source: Profile | Plan) -> Iterator[dict[str, Cell]]:
    """Yield one row per block, in order: sizes in bytes, times in ticks, None for no value.

    A block that is never freed has no `end`.
    """
    names = _PLAN if isinstance(source, Plan) else _PROFILE
    columns = [getattr(source, name).tolist() for name in names]
    for number, values in enumerate(zip(*columns, strict=True)):
        row: dict[str, Cell] = {"block": number}
        for name, value in zip(names, values, strict=True):
            row[name] = None if name in _NOTHING and value == _NOTHING[name] else value
        if isinstance(source, Profile):
            tag = row["tag"]
            origin = NO_ORIGIN if tag is None else source.tags[int(tag)]
            row |= {name: getattr(origin, name) for name in _ORIGIN}
        yield row
