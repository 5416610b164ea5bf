"""The peak as a tree of the calls or modules that requested its blocks."""

from dataclasses import dataclass, field

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.blocks.origins import EARLIER, UNTAGGED, existed_before
from pgmo.report.findings.attribution import alive, peak_tick

_DEEPEST = 40
"""Maximum number of levels. Blocks of deeper levels count in the last level."""


@dataclass
class Bar:
    """Call or module, with its children by name. Size and blocks include the children."""

    name: str
    size: int = 0
    blocks: int = 0
    children: "dict[str, Bar]" = field(default_factory=dict)


def by_stack(profile: Profile) -> Bar:
    """Return the peak as a tree of the lines of code that requested its blocks."""
    return _grow(profile, [_path(tag, tag.stack[::-1], "stack") for tag in profile.tags])


def by_module(profile: Profile) -> Bar:
    """Return the peak as a tree of modules, with the operators in each module."""
    parts = [tuple(tag.module.split(".")) if tag.module else () for tag in profile.tags]
    tags = zip(profile.tags, parts, strict=True)
    return _grow(profile, [_path(tag, part, "module") for tag, part in tags])


def _path(tag: Tag, outer: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return the names of a block's bars, outermost first. Without `outer`, the phase is first."""
    if not outer and tag.phase:
        outer = (f"{tag.phase}, no {what}",)
    return (*outer, tag.op) if tag.op else outer


def _grow(profile: Profile, paths: list[tuple[str, ...]]) -> Bar:
    copies = alive(profile, peak_tick(profile))
    rows = np.flatnonzero(copies)
    old = existed_before(profile)
    root = Bar("peak")
    for row in rows.tolist():
        tag = int(profile.tag[row])
        path = paths[tag] if tag >= 0 else ()
        path = path or (EARLIER if old[row] else UNTAGGED,)
        count = int(copies[row])
        size = int(profile.size[row]) * count
        bar = root
        bar.size, bar.blocks = bar.size + size, bar.blocks + count
        for name in path[:_DEEPEST]:
            bar = bar.children.setdefault(name, Bar(name))
            bar.size, bar.blocks = bar.size + size, bar.blocks + count
    return root
