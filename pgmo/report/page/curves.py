"""Live bytes of two profiles over one iteration each, in one drawing without a script."""

import html

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.units import format_bytes

_HEIGHT = 220
_COLUMNS = 500
"""Points of a line; each is the highest of the ticks that it stands for."""

_SCALE = 1000


def two_curves(before: Profile, after: Profile) -> str:
    """Both lines over the share of their iterations, since these have different numbers of ticks.

    Args:
        before: drawn dashed.
        after: drawn solid.

    Returns:
        An SVG as wide as its place; "" where neither has a tick.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> two_curves(profile, profile).count("<polyline")
        2
    """
    loads = {"before": before.load_curve(), "after": after.load_curve()}
    highest = max((int(load.max()) for load in loads.values() if load.size), default=0)
    if not highest:
        return ""
    lines = "".join(
        f'<polyline class="{name}" vector-effect="non-scaling-stroke" '
        f'points="{_points(load, highest)}"/>'
        for name, load in loads.items()
        if load.size
    )
    said = ", ".join(
        f"{name}: {format_bytes(int(load.max()))} at most"
        for name, load in loads.items()
        if load.size
    )
    return (
        f'<svg class="curves" role="img" aria-label="Live bytes over one iteration. '
        f'{html.escape(said)}" width="100%" height="{_HEIGHT}">'
        f'<svg viewBox="0 0 {_SCALE} {_SCALE}" preserveAspectRatio="none" width="100%" '
        f'height="100%">{lines}</svg>'
        f'<text x="4" y="12">{format_bytes(highest)}</text>'
        f'<text x="4" y="{_HEIGHT - 4}">0 B</text></svg>'
    )


def _points(load: np.ndarray, highest: int) -> str:
    """A line in the coordinates of the drawing, as steps are: each tick has a width."""
    edges = np.unique(np.linspace(0, len(load), min(len(load), _COLUMNS) + 1).astype(np.int64))
    tops = np.maximum.reduceat(load, edges[:-1])
    x = edges / len(load) * _SCALE
    y = (1 - tops / highest * 0.92) * _SCALE
    corners = zip(np.repeat(x, 2)[1:-1].tolist(), np.repeat(y, 2).tolist(), strict=True)
    return " ".join(f"{one:.1f},{two:.1f}" for one, two in corners)
