"""Small static SVG pictures of profiles and plans: no script, a bounded size, either theme.

address                      bytes
  |  +--------+ +---+          |      ______
  |  |        | |   |          |   __|      |__
  |  +--+-----+ +---+          | _|            |___
  +------------------ tick     +-------------------- tick
    plan_picture                 load_picture
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import Profile
from pgmo.report.exporters.lanes import slots_in_one_turn
from pgmo.units import format_bytes

WIDTH, HEIGHT = 720, 240
MOST_BLOCKS = 1200
"""Blocks that a picture shows at most, the largest ones first: 35 bytes of SVG each, or twice."""

MOST_COLUMNS = 400
"""Points of a curve at most; each is the highest of those that it stands for."""

_TINTS = (1, 0.7, 0.85)

PHASES: Mapping[str, str] = {
    "forward": "#4477aa",
    "backward": "#ee6677",
    "recompute": "#aa3377",
    "optimizer": "#228833",
    "other": "#bbbbbb",
}
"""The colours of the phases, those of the reports; any other phase is "other"."""

KINDS: Mapping[str, str] = {
    "freed in the same iteration": "#4477aa",
    "freed in the next one": "#ee6677",
    "two slots, used in turn": "#ccbb44",
}
"""The colours of the blocks of a plan."""


def load_picture(profile: Profile) -> tuple[str, dict[str, int]]:
    """Live bytes over an iteration, stacked by phase.

    Returns:
        The SVG, and the bytes that each phase holds at the peak, for a legend; phases that hold
        nothing at any time are left out.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> load_picture(profile)[1]
        {'other': 64}
    """
    total = profile.load_curve()
    curves = {name: curve for name, curve in _by_phase(profile).items() if curve.any()}
    if not curves:
        return _frame("", profile.ticks, "0 B"), {}
    peak = int(total.argmax())
    edges = _bins(profile.ticks)
    chosen = [low + int(total[low:high].argmax()) for low, high in itertools.pairwise(edges)]
    stacked = np.zeros(len(chosen), np.int64)
    shapes = []
    for name, curve in curves.items():
        stacked = stacked + curve[chosen]
        shapes.append(_area(edges, stacked / total[peak], PHASES[name]))
    held = {name: int(curve[peak]) for name, curve in curves.items()}
    # The highest stack first, so that the lower ones lie on top of it.
    return _frame("".join(reversed(shapes)), profile.ticks, format_bytes(int(total[peak]))), held


def _by_phase(profile: Profile) -> dict[str, NDArray[np.int64]]:
    """Live bytes at each tick, shape (ticks,), for each of `PHASES`."""
    names = [tag.phase if tag.phase in PHASES else "other" for tag in profile.tags]
    phases = np.array([*names, "other"])[profile.tag]  # -1, no tag, is the last one
    return {name: _part(profile, phases == name).load_curve() for name in PHASES}


def _part(profile: Profile, rows: NDArray[np.bool_]) -> Profile:
    return Profile.from_columns(
        size=profile.size[rows],
        start=profile.start[rows],
        end=profile.end[rows],
        shared=profile.shared[rows],
        ticks=profile.ticks,
        circular=profile.circular,
    )


def plan_picture(plan: Plan) -> tuple[str, dict[str, int], int]:
    """Every block of a plan from its request to its free, at its place in the arena.

    Returns:
        The SVG, the number of blocks of each kind, and the number of those that are drawn: the
        largest by area where there are more than `MOST_BLOCKS`.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> made = plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        >>> plan_picture(made)[1:]
        ({'freed in the same iteration': 1}, 1)
    """
    placed = np.flatnonzero(plan.offset != UNPLANNED)
    twice, wraps = plan.alternate[placed] != UNPLANNED, plan.end[placed] > plan.ticks
    kind = np.where(twice, 2, wraps.astype(int))
    counts = {name: int((kind == row).sum()) for row, name in enumerate(KINDS)}
    area = plan.size[placed].astype(float) * (plan.end[placed] - plan.start[placed])
    largest = np.sort(np.argsort(-area, kind="stable")[:MOST_BLOCKS])
    shapes = []
    for number, colour in enumerate(KINDS.values()):
        rows = placed[largest[kind[largest] == number]]
        upwards = rows[np.argsort(plan.offset[rows], kind="stable")]
        for turn, opacity in enumerate(_TINTS):  # to tell neighbours apart
            begin, end, row, offset = slots_in_one_turn(plan, upwards[turn :: len(_TINTS)])
            corners = np.stack([begin, end, offset, plan.size[row]], axis=1).tolist()
            path = "".join(_rectangle(plan, *one) for one in corners)
            if path:
                shapes.append(f'<path d="{path}" fill="{colour}" fill-opacity="{opacity}"/>')
    if plan.max_load < plan.arena:
        y = HEIGHT * (1 - plan.max_load / plan.arena)
        shapes.append(f'<path d="M0 {y:.1f}H{WIDTH}" stroke="currentColor" stroke-dasharray="4"/>')
    svg = _frame("".join(shapes), plan.ticks, format_bytes(plan.arena))
    return svg, {name: count for name, count in counts.items() if count}, len(largest)


def _rectangle(plan: Plan, start: int, end: int, offset: int, size: int) -> str:
    across, up = WIDTH / plan.ticks, HEIGHT / plan.arena
    x, y = start * across, HEIGHT - (offset + size) * up
    wide = (end - start) * across
    return f"M{x:.1f} {y:.1f}h{wide:.1f}v{size * up:.1f}h{-wide:.1f}z"


def _bins(ticks: int) -> list[int]:
    """Where the columns of a curve begin, and where the last one ends."""
    edges: list[int] = np.unique(
        np.linspace(0, ticks, min(ticks, MOST_COLUMNS) + 1).astype(int)
    ).tolist()
    return edges


def _area(edges: Sequence[int], level: NDArray[np.float64], colour: str) -> str:
    """A stepped area from the ground to `level`, shape (columns,), of the picture's height."""
    across = WIDTH / edges[-1]
    steps = "".join(
        f"V{HEIGHT * (1 - value):.1f}H{edge * across:.1f}"
        for edge, value in zip(edges[1:], level.tolist(), strict=True)
    )
    return f'<path d="M0 {HEIGHT}{steps}V{HEIGHT}z" fill="{colour}"/>'


def _frame(shapes: str, ticks: int, top: str) -> str:
    """Axes around the shapes, in the colour of the text around them."""
    text = 'fill="currentColor" font-size="12" font-family="sans-serif"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-70 -12 {WIDTH + 90} {HEIGHT + 36}" '
        f'style="width:100%;max-width:{WIDTH + 90}px;height:auto" role="img">'
        f"{shapes}"
        f'<path d="M0 -6V{HEIGHT}H{WIDTH + 6}" fill="none" stroke="currentColor"/>'
        f'<text x="-6" y="6" text-anchor="end" {text}>{top}</text>'
        f'<text x="-6" y="{HEIGHT}" text-anchor="end" {text}>0</text>'
        f'<text x="0" y="{HEIGHT + 18}" {text}>request 0</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 18}" text-anchor="end" {text}>{ticks}</text>'
        "</svg>"
    )
