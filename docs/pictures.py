"""Pictures of docs/how_it_works.md: the circle and the arena of one small profile.

    python docs/pictures.py            # writes docs/pictures/circle.svg and arena.svg

`pgmo.plan` places the blocks, so the picture agrees with real plans.
"""

import math
from pathlib import Path

import pgmo

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377")
FOLDER = Path(__file__).parent / "pictures"
FONT = 'font-family="system-ui, sans-serif" font-size="13" fill="#222"'


def example() -> pgmo.Profile:
    """Return six blocks, of which the last lives into the next iteration."""
    return pgmo.Profile.from_columns(
        size=[64, 32, 64, 96, 32, 64],
        start=[0, 1, 3, 4, 6, 7],
        end=[3, 6, 7, 6, 8, 10],
        ticks=8,
    )


def circle(profile: pgmo.Profile) -> str:
    """Draw lifetimes as arcs around one iteration, with the first request at the top."""
    middle, shapes = (230, 215), []
    for tick in range(profile.ticks):
        x, y = _on_circle(middle, 182, tick / profile.ticks)
        inner = _on_circle(middle, 60, tick / profile.ticks)
        outer = _on_circle(middle, 170, tick / profile.ticks)
        shapes.append(_line(inner, outer, "#ddd"))
        shapes.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{tick}</text>')
    for row, (start, end) in enumerate(_lives(profile)):
        radius = 75 + 17 * row
        a = _on_circle(middle, radius, start / profile.ticks)
        b = _on_circle(middle, radius, end / profile.ticks)
        large = int((end - start) * 2 > profile.ticks)
        shapes.append(
            f'<path d="M{a[0]:.1f} {a[1]:.1f}A{radius} {radius} 0 {large} 1 {b[0]:.1f} {b[1]:.1f}" '
            f'fill="none" stroke="{COLOURS[row]}" stroke-width="13"/>'
        )
    notes = (
        "One iteration: eight requests, clockwise.",
        "Each arc is a block, from its request",
        "to its free.",
        "",
        "The outermost one is requested by request 7",
        "and freed in the next iteration, before",
        "request 2 is served: its lifetime wraps.",
    )
    shapes += [f'<text x="450" y="{150 + 20 * n}">{line}</text>' for n, line in enumerate(notes)]
    return _picture(760, 430, shapes)


def arena(profile: pgmo.Profile, plan: pgmo.Plan) -> str:
    """Draw blocks over ticks and addresses, with the sum of live bytes above them."""
    left, bottom, wide, high = 70, 250, 76, 200 / plan.arena
    right = left + wide * profile.ticks
    shapes = []
    for row, (start, end) in enumerate(_lives(profile)):
        pieces = [(start, min(end, profile.ticks))]
        if end > profile.ticks:
            pieces.append((0, end - profile.ticks))
        offset, size = int(plan.offset[row]), int(profile.size[row])
        for first, last in pieces:
            shapes.append(
                f'<rect x="{left + wide * first}" y="{bottom - (offset + size) * high:.1f}" '
                f'width="{wide * (last - first)}" height="{size * high:.1f}" '
                f'fill="{COLOURS[row]}" stroke="#fff"/>'
            )
            shapes.append(
                f'<text x="{left + wide * first + 6}" fill="#fff" '
                f'y="{bottom - offset * high - 8:.1f}">{size} B</text>'
            )
    load = profile.load_curve()
    path = "".join(
        f"{'M' if tick == 0 else 'L'}{left + wide * tick} {bottom - int(load[tick]) * high:.1f}"
        f"H{left + wide * (tick + 1)}"
        for tick in range(profile.ticks)
    )
    shapes.append(f'<path d="{path}" fill="none" stroke="#222" stroke-width="2"/>')
    top = bottom - plan.arena * high
    shapes.append(_line((left, top), (right, top), "#222", dashed=True))
    shapes.append(f'<text x="{left}" y="{top - 8:.1f}">arena {plan.arena} B</text>')
    shapes.append(
        f'<text x="{right}" y="{top - 8:.1f}" text-anchor="end">'
        f"black: live bytes, at most {plan.max_load} B</text>"
    )
    shapes.append(_line((left, bottom), (right, bottom), "#555"))
    shapes += [
        f'<text x="{left + wide * tick}" y="{bottom + 18}" text-anchor="middle">{tick}</text>'
        for tick in range(profile.ticks + 1)
    ]
    shapes.append(f'<text x="{left}" y="{bottom + 40}">request within the iteration</text>')
    shapes.append(f'<text x="8" y="{bottom - 4}">address</text>')
    return _picture(760, 305, shapes)


def _lives(profile: pgmo.Profile) -> list[tuple[int, int]]:
    return list(zip(profile.start.tolist(), profile.end.tolist(), strict=True))


def _on_circle(middle: tuple[int, int], radius: float, turn: float) -> tuple[float, float]:
    angle = 2 * math.pi * turn
    return middle[0] + radius * math.sin(angle), middle[1] - radius * math.cos(angle)


def _line(
    a: tuple[float, float], b: tuple[float, float], colour: str, *, dashed: bool = False
) -> str:
    dash = ' stroke-dasharray="3 3"' if dashed else ""
    return f'<path d="M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}" stroke="{colour}"{dash}/>'


def _picture(width: int, height: int, shapes: list[str]) -> str:
    ground = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    body = "\n".join([ground, *shapes])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {FONT}>'
    return f"{head}\n{body}\n</svg>\n"


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    profile = example()
    plan = pgmo.plan(profile, alignment=32)
    return {"circle.svg": circle(profile), "arena.svg": arena(profile, plan)}


def main() -> None:
    """Write both pictures."""
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
        print(f"Wrote {FOLDER / name}")


if __name__ == "__main__":
    main()
