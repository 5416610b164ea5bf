"""Drawing of the bytes that a job takes, by the value of the option that varies."""

from collections.abc import Callable
from html import escape
from math import ceil, log2

from pgmo.fit.answer import NAMES, Answer
from pgmo.rehearsal.environment import WAYS
from pgmo.units import format_bytes

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 14, 34


def curve(answer: Answer) -> str:
    """Return the drawing: a line for each allocator, the card's memory, dots at largest values.

    The result is "" for fewer than two values.
    """
    if len(answer.curve) < 2:
        return ""
    values = [row[0] for row in answer.curve]
    top = max(answer.card.usable, *(max(row[1:]) for row in answer.curve)) * 1.03
    first, last = values[0], values[-1]

    def x(value: float) -> float:
        return _LEFT + (value - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(size: float) -> float:
        return _TOP + (1 - size / top) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_grid(top, y), _axis(values, x)]
    limit = y(answer.card.usable)
    parts.append(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{limit:.1f}" y2="{limit:.1f}" '
        'stroke="var(--ink)" stroke-width="1.5" stroke-dasharray="5 4"/>'
        f'<text x="{_LEFT + 6}" y="{limit - 5:.1f}">{escape(answer.card.name)}</text>'
    )
    for at, way in enumerate(WAYS, 1):
        points = " ".join(f"{x(row[0]):.1f},{y(row[at]):.1f}" for row in answer.curve)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="var(--{way})" stroke-width="2"/>'
        )
    for one in answer.largest:
        if one.need is not None and one.change is None and first <= one.value <= last:
            parts.append(
                f'<circle cx="{x(one.value):.1f}" cy="{y(one.need.total(one.way)):.1f}" r="4" '
                f'fill="var(--{one.way})"/>'
            )
    legend = "".join(
        f'<li><i style="background:var(--{way})"></i>{escape(NAMES[way])}</li>' for way in WAYS
    )
    return (
        f'<div class="panel"><div class="drawing"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Bytes of the card by the value of the option">{"".join(parts)}</svg></div>'
        f'<ul class="legend">{legend}</ul></div>'
        '<p class="quiet">Dots: the largest values that fit. Dashed: the memory of the card. '
        "Bytes at values that were not rehearsed are predictions.</p>"
    )


def _grid(top: float, y: Callable[[float], float]) -> str:
    lines = []
    step = 2.0 ** ceil(log2(top / 4))
    size = 0.0
    while size <= top:
        height = y(size)
        lines.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" '
            'stroke="var(--hair)"/>'
            f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">'
            f"{format_bytes(size) if size else '0'}</text>"
        )
        size += step
    return "".join(lines)


def _axis(values: list[int], x: Callable[[float], float]) -> str:
    shown = values if len(values) <= 8 else values[:: -(-len(values) // 8)]
    return "".join(
        f'<text x="{x(value):.1f}" y="{_HEIGHT - 12}" text-anchor="middle">{value}</text>'
        for value in shown
    )
