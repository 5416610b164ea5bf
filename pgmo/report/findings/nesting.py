"""The peak as a tree of the calls or modules that requested its blocks."""

from dataclasses import dataclass, field

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.blocks.origins import EARLIER, UNTAGGED, existed_before
from pgmo.report.findings.attribution import alive, peak_tick

_DEEPEST = 40
"""Maximum number of levels. Deeper levels are part of the last one."""


@dataclass
class Bar:
    """Call or module, with its children by name. Size and blocks include the children."""

    name: str
    size: int = 0
    blocks: int = 0
    children: "dict[str, Bar]" = field(default_factory=dict)


def by_stack(profile: Profile) -> Bar:
    """Return the peak by the lines of code that requested its blocks, outermost call first."""
    paths = [
        (*reversed(tag.stack), *_named(tag.op)) if tag.stack else _without(tag, "stack")
        for tag in profile.tags
    ]
    return _grow(profile, paths)


def by_module(profile: Profile) -> Bar:
    """Return the peak by modules, and by operators in them."""
    paths = [
        (*tag.module.split("."), *_named(tag.op)) if tag.module else _without(tag, "module")
        for tag in profile.tags
    ]
    return _grow(profile, paths)


def _named(operator: str) -> tuple[str, ...]:
    return (operator,) if operator else ()


def _without(tag: Tag, what: str) -> tuple[str, ...]:
    """Return the path of a block without a module or a stack, for example in a backward pass."""
    return (f"{tag.phase}, no {what}", *_named(tag.op)) if tag.phase else _named(tag.op)


def _grow(profile: Profile, paths: list[tuple[str, ...]]) -> Bar:
    """Return the tree of the blocks that live at the peak."""
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
