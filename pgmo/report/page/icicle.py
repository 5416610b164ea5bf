"""Memory at the peak as icicle plots: a bar per call or module, with its callees below it.

    | peak 4.94 GiB                                       |
    | train.py:9 in step                 | train.py:12    |      the outermost on top,
    | model.py:31 in forward   |  ...    |                       width in proportion to bytes

The plots are SVG drawings without scripts. Sizes are in percent, so the plots fit any screen.
"""

import html
from typing import TYPE_CHECKING

from pgmo.profiler.profile import Profile
from pgmo.report.blocks.origins import EARLIER, UNTAGGED
from pgmo.report.findings.nesting import Bar, by_module, by_stack
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROW = 20
"""Height of a bar, in pixels."""

_NARROWEST = 0.002
"""Minimum share of the peak that gets a bar. Smaller shares are not drawn."""

_COLOURS = 8
"""Number of colours in the style sheet."""


def icicles(profile: Profile, title: str = "What holds memory at the peak") -> str:
    """Return drawings by module and by stack as a section; "" if modules and stacks are unknown."""
    drawn = []
    if any(tag.module for tag in profile.tags):
        drawn.append(_figure("By module, with the operators in it", by_module(profile)))
    if any(tag.stack for tag in profile.tags):
        drawn.append(_figure("By stack, the outermost call on top", by_stack(profile)))
    if not drawn:
        return ""
    return (
        '<section class="icicles" aria-labelledby="icicles-title">'
        f'<h2 id="icicles-title">{html.escape(title)}</h2>'
        f"{''.join(drawn)}</section>"
    )


def _figure(caption: str, root: Bar) -> str:
    """Return one drawing; "" without bytes. Its label names the three largest outermost bars."""
    if not root.size:
        return ""
    bars = list(_layout(root, 0.0, 0, root.size, -1))
    height = _ROW * (1 + max(row for _, _, row, _ in bars))
    largest = sorted(root.children.values(), key=lambda bar: -bar.size)[:3]
    named = "; ".join(f"{bar.name} {format_bytes(bar.size)}" for bar in largest)
    label = html.escape(f"{caption}. {format_bytes(root.size)} in all: {named}", quote=True)
    return (
        f"<figure><figcaption>{html.escape(caption)}</figcaption>"
        f'<svg class="icicle" role="img" aria-label="{label}" width="100%" height="{height}">'
        f"{''.join(_bar(*one, root.size) for one in bars)}</svg></figure>"
    )


def _layout(
    bar: Bar, left: float, row: int, whole: int, colour: int
) -> "Iterable[tuple[Bar, float, int, int]]":
    """Yield bars with left edge (a share of the whole), row and colour."""
    yield bar, left, row, colour
    ordered = sorted(bar.children.values(), key=lambda one: (-one.size, one.name))
    for number, child in enumerate(ordered):
        share = child.size / whole
        if share < _NARROWEST:
            return
        inherited = number % _COLOURS if row == 0 or len(ordered) > 1 else colour
        yield from _layout(child, left, row + 1, whole, inherited)
        left += share


def _bar(bar: Bar, left: float, row: int, colour: int, whole: int) -> str:
    share = bar.size / whole
    size = f"{format_bytes(bar.size)} ({share:.1%}), {bar.blocks:,} block{'s' * (bar.blocks != 1)}"
    name = "the peak" if row == 0 else bar.name
    kind = "grey" if bar.name in (EARLIER, UNTAGGED) or row == 0 else f"c{colour}"
    label = f"{name}, {format_bytes(bar.size)}"
    # A nested SVG clips text that is wider than the bar.
    return (
        f'<svg x="{100 * left:.3f}%" y="{_ROW * row}" width="{100 * share:.3f}%" '
        f'height="{_ROW - 1}"><title>{html.escape(f"{name}: {size}")}</title>'
        f'<rect width="100%" height="100%" class="{kind}"/>'
        + (f'<text x="4" y="14">{html.escape(label)}</text>' if share > 0.01 else "")
        + "</svg>"
    )
