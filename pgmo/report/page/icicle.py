"""Who holds the peak, as icicles: a bar for each call or module, what it calls below it.

    | peak 4.94 GiB                                       |
    | train.py:9 in step                 | train.py:12    |      outermost on top,
    | model.py:31 in forward   |  ...    |                       as wide as it holds bytes

They are drawings of SVG without a script, in percent, so they are there on any screen.
"""

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.findings.attribution import alive, peak_tick
from pgmo.report.findings.origins import EARLIER, UNTAGGED, there_before
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROW = 20
"""Height of a bar, in pixels."""

_DEEPEST = 40
"""Rows; what lies deeper is part of the last one."""

_NARROWEST = 0.002
"""Share of the peak below which a bar is not drawn."""

_COLOURS = 8
"""How many the style sheet has."""


@dataclass
class Bar:
    """A call or a module, with what is in it.

    Args:
        name: of itself, without those that it is in.
        size: bytes, its children's included.
        blocks: live blocks, its children's included.
        children: by name.
    """

    name: str
    size: int = 0
    blocks: int = 0
    children: "dict[str, Bar]" = field(default_factory=dict)


def by_stack(profile: Profile) -> Bar:
    """The peak by the lines of code that asked for its blocks, the outermost call first.

    Example:
        >>> from pgmo.profiler.tag import Tag
        >>> tag = Tag("", "aten.mm", "forward", stack=("net.py:2 in forward", "train.py:9 in step"))
        >>> profile = Profile.from_columns(
        ...     size=[64], start=[0], end=[1], ticks=1, tag=[0], tags=(tag,)
        ... )
        >>> list(by_stack(profile).children["train.py:9 in step"].children)
        ['net.py:2 in forward']
    """
    paths = [
        (*reversed(tag.stack), *_named(tag.op)) if tag.stack else _without(tag, "stack")
        for tag in profile.tags
    ]
    return _grow(profile, paths)


def by_module(profile: Profile) -> Bar:
    """The peak by modules, and by operators in them.

    Example:
        >>> from pgmo.profiler.tag import Tag
        >>> profile = Profile.from_columns(
        ...     size=[64], start=[0], end=[1], ticks=1, tag=[0], tags=(Tag("Net.a", "mm", ""),)
        ... )
        >>> list(by_module(profile).children["Net"].children)
        ['a']
    """
    paths = [
        (*tag.module.split("."), *_named(tag.op)) if tag.module else _without(tag, "module")
        for tag in profile.tags
    ]
    return _grow(profile, paths)


def _named(operator: str) -> tuple[str, ...]:
    return (operator,) if operator else ()


def _without(tag: Tag, what: str) -> tuple[str, ...]:
    """Where a block goes that has no stack, as in the backward pass, or no module."""
    return (f"{tag.phase}, no {what}", *_named(tag.op)) if tag.phase else _named(tag.op)


def _grow(profile: Profile, paths: list[tuple[str, ...]]) -> Bar:
    """The tree of the blocks that live at the peak."""
    copies = alive(profile, peak_tick(profile))
    rows = np.flatnonzero(copies)
    old = there_before(profile)
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


def icicles(profile: Profile, title: str = "Who holds the peak", name: str = "icicles") -> str:
    """Both drawings as a section of the page; "" where neither modules nor stacks are known.

    Args:
        profile: the profile.
        title: of the section.
        name: of the section, the only one of its name in the page.

    Example:
        >>> icicles(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        ''
    """
    drawn = []
    if any(tag.module for tag in profile.tags):
        drawn.append(_figure("By module, with the operators in it", by_module(profile)))
    if any(tag.stack for tag in profile.tags):
        drawn.append(_figure("By stack, the outermost call on top", by_stack(profile)))
    if not drawn:
        return ""
    return (
        f'<section class="icicles" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{html.escape(title)}</h2>'
        f"{''.join(drawn)}</section>"
    )


def _figure(caption: str, root: Bar) -> str:
    """One drawing. A bar says what it is where the pointer rests, and the largest are in words."""
    if not root.size:
        return ""
    bars = list(_laid(root, 0.0, 0, root.size, -1))
    height = _ROW * (1 + max(row for _, _, row, _ in bars))
    largest = sorted(root.children.values(), key=lambda bar: -bar.size)[:3]
    said = "; ".join(f"{bar.name} {format_bytes(bar.size)}" for bar in largest)
    label = html.escape(f"{caption}. {format_bytes(root.size)} in all: {said}", quote=True)
    return (
        f"<figure><figcaption>{html.escape(caption)}</figcaption>"
        f'<svg class="icicle" role="img" aria-label="{label}" width="100%" height="{height}">'
        f"{''.join(_bar(*one, root.size) for one in bars)}</svg></figure>"
    )


def _laid(
    bar: Bar, left: float, row: int, whole: int, colour: int
) -> "Iterable[tuple[Bar, float, int, int]]":
    """Bars with their left edges (a share of the whole), rows and colours."""
    yield bar, left, row, colour
    ordered = sorted(bar.children.values(), key=lambda one: (-one.size, one.name))
    for number, child in enumerate(ordered):
        share = child.size / whole
        if share < _NARROWEST:
            return
        inherited = number % _COLOURS if row == 0 or len(ordered) > 1 else colour
        yield from _laid(child, left, row + 1, whole, inherited)
        left += share


def _bar(bar: Bar, left: float, row: int, colour: int, whole: int) -> str:
    share = bar.size / whole
    said = f"{format_bytes(bar.size)} ({share:.1%}), {bar.blocks:,} blocks"
    name = "the peak" if row == 0 else bar.name
    kind = "grey" if bar.name in (EARLIER, UNTAGGED) or row == 0 else f"c{colour}"
    label = f"{name}, {format_bytes(bar.size)}"
    # A drawing in the drawing cuts off what is wider than the bar.
    return (
        f'<svg x="{100 * left:.3f}%" y="{_ROW * row}" width="{100 * share:.3f}%" '
        f'height="{_ROW - 1}"><title>{html.escape(f"{name}: {said}")}</title>'
        f'<rect width="100%" height="100%" class="{kind}"/>'
        + (f'<text x="4" y="14">{html.escape(label)}</text>' if share > 0.01 else "")
        + "</svg>"
    )
