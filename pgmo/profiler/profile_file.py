"""`*.pgmoprof` files: a profile as a sealed archive of columns (docs/reference/files.md).

lm.pgmoprof
+--------------------------+
| size.npy ... meta.json   |  the iteration
| trace.pgmoprof           |  optional nested archive: the trace that contains the iteration
| order.pgmoprof           |  optional nested archive: the iteration's stream order
+--------------------------+
"""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pgmo.archive import Archive, pack, read, read_from, write
from pgmo.archive.fields import UNWRITTEN, Fields, as_text, refuse
from pgmo.errors import FileError, ProfileError
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.ordering.order_file import MEMBER, pack_order, unpack_order
from pgmo.profiler.profile import COLUMNS, MAX_TICKS, Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import COLUMNS as TRACE_COLUMNS
from pgmo.profiler.trace import (
    MOST_ADDRESS,
    MOST_DEVICE,
    MarkedBy,
    PrivateSegment,
    Trace,
)

FORMAT = "pgmoprof"
FORMAT_VERSION = 5
_TRACE = "trace"
_PRIVATE = "private"
_MOST_LINES = 64  # Maximum number of stack lines stored with a tag.
_TEXTS = tuple(item.name for item in fields(ProfileMeta) if item.name != "notes")


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write a profile; an existing file is replaced atomically.

    Raises:
        FileError: when the file cannot be written, or could not be read back.
    """
    own = {
        "ticks": profile.ticks,
        "circular": profile.circular,
        "steady": profile.steady,
        "tags": _tags_to_json(profile.tags),
        "meta": meta_to_json(profile.meta),
    }
    path = Path(path)
    _fields(Fields(path, own, remedy=UNWRITTEN), len(profile))
    columns = {name: getattr(profile, name) for name in COLUMNS}
    nested = {} if profile.trace is None else {_TRACE: _pack_trace(path, profile.trace)}
    if profile.order is not None:
        nested[MEMBER] = pack_order(profile.order, FORMAT, FORMAT_VERSION)
    write(path, FORMAT, FORMAT_VERSION, columns, own, nested)


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a profile after checking the whole file.

    Raises:
        FileError: when the file cannot be read, or is truncated, altered, inconsistent or of
            another version.
    """
    archive = read(path, FORMAT, FORMAT_VERSION, COLUMNS, nests=True)
    for name in sorted(archive.nested.keys() - {_TRACE, MEMBER}):
        refuse(archive.path, f"member '{name[:80]}.{FORMAT}' is not part of this format")
    own = Fields(archive.path, archive.fields)
    try:
        columns: dict[str, Any] = archive.columns
        return Profile(
            **columns,
            **_fields(own, archive.rows),
            trace=_read_trace(archive) if _TRACE in archive.nested else None,
            order=_read_order(archive),
        )
    except ProfileError as error:
        raise FileError(f"{archive.path}: {error}; record the profile again") from error


def _fields(own: Fields, rows: int) -> dict[str, Any]:
    """Return the checked profile fields of `meta.json`, before writing or after reading."""
    own.only("ticks", "circular", "steady", "tags", "meta")
    ticks = own.integer("ticks", 0, MAX_TICKS)
    # Computations allocate memory for each tick, so the file's size limits the ticks.
    if ticks > 1024 * (rows + 1024):
        own.refuse(f"declares {ticks} ticks for {rows} blocks, the most is {1024 * (rows + 1024)}")
    return {
        "ticks": ticks,
        "circular": own.flag("circular"),
        "steady": own.flag("steady"),
        "tags": _tags_from_json(own),
        "meta": meta_from_json(own.inner("meta")),
    }


def _pack_trace(outer: Path, trace: Trace) -> bytes:
    own: dict[str, object] = {
        "before": trace.before,
        "device": trace.device,
        "settings": texts_to_json(trace.settings),
        "tags": _tags_to_json(trace.tags),
        "marked_by": str(trace.marked_by),
    }
    if trace.private:
        own[_PRIVATE] = [[*one.pool, one.address, one.size] for one in trace.private]
    path = outer / f"{_TRACE}.{FORMAT}"
    _trace_fields(Fields(path, own, remedy=UNWRITTEN), len(trace))
    columns = {name: getattr(trace, name) for name in TRACE_COLUMNS}
    return pack(FORMAT, FORMAT_VERSION, columns, own)


def _read_trace(outer: Archive) -> Trace:
    path = outer.path / f"{_TRACE}.{FORMAT}"
    archive = read_from(path, outer.nested[_TRACE], FORMAT, FORMAT_VERSION, TRACE_COLUMNS)
    own = Fields(path, archive.fields)
    columns: dict[str, Any] = archive.columns
    return Trace(**columns, **_trace_fields(own, archive.rows))


def _read_order(archive: Archive) -> Order | None:
    if MEMBER not in archive.nested:
        return None
    path = archive.path / f"{MEMBER}.{FORMAT}"
    return unpack_order(archive.nested[MEMBER], path, FORMAT, FORMAT_VERSION)


def _trace_fields(own: Fields, rows: int) -> dict[str, Any]:
    """Return the checked trace fields of `meta.json`, before writing or after reading."""
    has_private = own.has(_PRIVATE)
    own.only(
        *("before", "device", "settings", "tags", "marked_by"), *([_PRIVATE] if has_private else [])
    )
    private = own.integer_rows(_PRIVATE, 4, MOST_ADDRESS) if has_private else []
    return {
        "before": own.integer("before", 0, rows),
        "device": own.integer("device", 0, MOST_DEVICE),
        "settings": own.texts("settings"),
        "tags": _tags_from_json(own),
        "marked_by": _marked_by(own),
        "private": tuple(PrivateSegment((a, b), *place) for a, b, *place in private),
    }


def _marked_by(own: Fields) -> MarkedBy:
    found = own.text("marked_by")
    if found == "metadata":  # Earlier versions counted iterations by numbers in user metadata.
        return MarkedBy.STEPS
    if found not in set(MarkedBy):
        own.refuse(f"'marked_by' is {found[:40]!r}, must be one of {', '.join(MarkedBy)}")
    return MarkedBy(found)


def _tags_to_json(tags: tuple[Tag, ...]) -> list[list[str]]:
    rows = [(tag.module, tag.op, tag.phase, tag.file, *tag.stack[:_MOST_LINES]) for tag in tags]
    return [[as_text(text) for text in row] for row in rows]


def _tags_from_json(own: Fields) -> tuple[Tag, ...]:
    rows = own.rows("tags", 4, 4 + _MOST_LINES)
    return tuple(Tag(row[0], row[1], row[2], row[3], row[4:]) for row in rows)


def meta_to_json(meta: ProfileMeta) -> dict[str, object]:
    """Return the JSON form of the metadata, which profiles and plans contain."""
    texts: dict[str, object] = {name: as_text(getattr(meta, name)) for name in _TEXTS}
    return {**texts, "notes": texts_to_json(meta.notes)}


def texts_to_json(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the JSON form of a mapping between strings."""
    return {as_text(key): as_text(value) for key, value in texts.items()}


def meta_from_json(own: Fields) -> ProfileMeta:
    """Return the metadata that `meta_to_json` wrote."""
    own.only(*_TEXTS, "notes")
    return ProfileMeta(**{name: own.text(name) for name in _TEXTS}, notes=own.texts("notes"))
