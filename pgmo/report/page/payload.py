"""Data of a profile and its plan for the report page, packed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.blocks.framework_addresses import Placement
from pgmo.report.blocks.origins import existed_before
from pgmo.report.page.packed import Column, pack

VARYING, SHARED, PERSISTENT, EARLIER = 1, 2, 4, 16
"""Bits of the column `flags`."""


def payload(
    profile: Profile,
    plan: Plan,
    *,
    placement: Placement | None = None,
    reserved: dict[str, NDArray[np.int64]] | None = None,
) -> str:
    """Pack all data that the page draws.

    The lines over time exclude persistent blocks, which are in neither the load nor the arena.
    """
    streams, stream = np.unique(profile.stream, return_inverse=True)
    flags = (
        profile.varying * VARYING
        + profile.shared * SHARED
        + profile.persistent * PERSISTENT
        + existed_before(profile) * EARLIER
    ).astype(np.int64)
    tags, tag = _tags(profile, placement)
    kept = _persistent_bytes(profile)
    header = {
        "moment": profile.is_moment,
        "placesSeen": bool((profile.address > 0).any()),
        "hasPersistent": bool(kept.any()),
        "ticks": profile.ticks,
        "circular": profile.circular,
        "arena": plan.arena,
        "maxLoad": plan.max_load,
        "alignment": plan.alignment,
        "streams": [str(number) for number in streams.tolist()],
        "height": placement.height if placement else 0,
        **_strings(tags),
    }
    columns = [
        Column("size", profile.size),
        Column("start", profile.start, delta=True),
        Column("life", np.where(profile.persistent, -1, profile.end - profile.start)),
        Column("offset", plan.offset),
        Column("alternate", plan.alternate),
        Column("tag", tag[: len(profile)]),
        Column("stream", stream.astype(np.int64)),
        Column("flags", flags),
        Column("load", _load(profile, plan.alignment), delta=True),
        *_placed(placement, tag[len(profile) :]),
    ]
    for name, line in (reserved or {}).items():
        columns.append(Column(f"reserved:{name}", np.maximum(0, line - kept), delta=True))
    return pack(header, columns)


def _load(profile: Profile, alignment: int) -> NDArray[np.int64]:
    """Return the live bytes of planned blocks at each tick; without a history, the sum of all."""
    if profile.is_moment:
        return np.array([(-(-profile.size // alignment) * alignment).sum()], np.int64)
    return profile.load_curve(alignment)


def _persistent_bytes(profile: Profile) -> NDArray[np.int64]:
    """Return the bytes of the persistent blocks at each tick; zeros without a history."""
    change = np.zeros(profile.ticks, np.int64)
    if not profile.is_moment:
        start = np.where(profile.circular, 0, profile.start)
        np.add.at(change, start[profile.persistent], profile.size[profile.persistent])
    return np.cumsum(change)


def _placed(placement: Placement | None, tag: NDArray[np.int64]) -> list[Column]:
    if placement is None:
        return []
    return [
        Column("position", placement.position),
        Column("segment:position", placement.segments[:, 0]),
        Column("segment:size", placement.segments[:, 1]),
        Column("segment:address", placement.segments[:, 2]),
        Column("resident:position", placement.resident[:, 0]),
        Column("resident:size", placement.resident[:, 1]),
        Column("resident:tag", tag),
    ]


def _tags(
    profile: Profile, placement: Placement | None
) -> tuple[tuple[Tag, ...], NDArray[np.int64]]:
    """Return all used tags, and the tag number of each block, then of each resident block."""
    tags = list(profile.tags)
    tag = profile.tag.astype(np.int64)
    if placement is not None and profile.trace is not None:
        number = {origin: index for index, origin in enumerate(tags)}
        theirs = []
        for index in placement.resident[:, 2].tolist():
            origin = profile.trace.tags[index] if index >= 0 else None
            if origin is not None and origin not in number:
                number[origin] = len(tags)
                tags.append(origin)
            theirs.append(-1 if origin is None else number[origin])
        tag = np.concatenate([tag, np.array(theirs, np.int64)])
    used, tag = np.unique(tag, return_inverse=True)
    if used.size and used[0] == -1:
        return tuple(tags[index] for index in used[1:].tolist()), tag.astype(np.int64) - 1
    return tuple(tags[index] for index in used.tolist()), tag.astype(np.int64)


def _strings(tags: tuple[Tag, ...]) -> dict[str, Any]:
    """Return all distinct strings of the tags, and each tag as the indices of its strings."""
    number: dict[str, int] = {}

    def index(text: str) -> int:
        return number.setdefault(text, len(number))

    rows = [
        [index(t.module), index(t.op), index(t.phase), index(t.file), *map(index, t.stack)]
        for t in tags
    ]
    return {"strings": list(number), "tags": rows}
