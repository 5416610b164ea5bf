"""Growth of a program's memory from one state to the next, with its origins.

old   max load 100 MiB   arena 101 MiB   persistent 8 MiB   230 blocks
new   max load 112 MiB   arena 112 MiB   persistent 8 MiB   236 blocks      tolerance 1 %
      grown: 12.0 %            10.9 %                         grown: 2.6 %
      Net.head +12 MiB, aten.addmm +12 MiB
"""

from dataclasses import dataclass

import numpy as np

from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.report.blocks.origins import By
from pgmo.report.findings.attribution import alive, hold, peak_tick
from pgmo.report.findings.comparison import Change, side_of
from pgmo.report.gate.tolerance import Tolerance

FIGURES = ("max load", "arena", "persistent", "blocks")

ORIGINS: tuple[By, ...] = ("module", "op")
"""Groupings by which growth is attributed to origins."""


@dataclass(frozen=True)
class Grown(Change):
    """Origin, a "module" or an "op", that holds more bytes or blocks than in the earlier state."""

    by: By


@dataclass(frozen=True)
class Figure:
    """One figure in both states; a value is None if it is unknown.

    Args:
        name: one of `FIGURES`.
        unit: "bytes" or "blocks".
        before: figure of the earlier state.
        after: figure of the new state.
        limit: largest allowed value of `after`.
        grown: modules, then operators that hold more than in the earlier state, largest growth
            first; empty if the figure has not grown, or if a state is a plan.
    """

    name: str
    unit: str
    before: int | None
    after: int | None
    limit: int | None
    grown: tuple[Grown, ...] = ()

    @property
    def failed(self) -> bool:
        """Return whether the figure is above its limit."""
        return None not in (self.after, self.limit) and (self.after or 0) > (self.limit or 0)


@dataclass(frozen=True)
class Growth:
    """Figures of one program in two states, in the order of `FIGURES`."""

    name: str
    figures: tuple[Figure, ...]

    @property
    def failed(self) -> bool:
        """Return whether one of the figures is above its limit."""
        return any(figure.failed for figure in self.figures)


def find_growth(
    name: str, before: Profile | Plan, after: Profile | Plan, tolerance: Tolerance
) -> Growth:
    """Compare two states of a program, each a profile or a plan.

    For a profile, the figure "arena" comes from a plan of the fast packers. Both profiles are
    planned here, so a changed planner makes no difference. Plans contain no origins.
    """
    sides = _figures_of(before), _figures_of(after)
    figures = []
    for key in FIGURES:
        old, new = sides[0][key], sides[1][key]
        unit = "blocks" if key == "blocks" else "bytes"
        limit = None if old is None else tolerance.limit(old, blocks=unit == "blocks")
        more = None not in (old, new) and (new or 0) > (old or 0)
        grown: tuple[Grown, ...] = ()
        if more and isinstance(before, Profile) and isinstance(after, Profile):
            grown = _grown(before, after, key)
        figures.append(Figure(key, unit, old, new, limit, grown))
    return Growth(name, tuple(figures))


def _figures_of(what: Profile | Plan) -> dict[str, int | None]:
    side = side_of(what)
    arena = side.arena
    if isinstance(what, Profile):
        arena = plan(what, effort="fast").arena if np.any(what.turns > 0) else 0
    return dict(zip(FIGURES, (side.max_load, arena, side.persistent, side.blocks), strict=True))


def _grown(before: Profile, after: Profile, key: str) -> tuple[Grown, ...]:
    found = []
    for by in ORIGINS:
        old, new = (_held(one, by, key) for one in (before, after))
        rows = [Grown(name, old.get(name, 0), count, by) for name, count in new.items()]
        rows = [one for one in rows if one.growth > 0]
        found += sorted(rows, key=lambda one: (-one.growth, one.name))
    return tuple(found)


def _held(profile: Profile, by: By, key: str) -> dict[str, int]:
    """Return each origin's bytes or blocks in a figure; for max load and arena, at the peak."""
    if key == "blocks":
        copies = np.ones(len(profile), np.int64)
    elif key == "persistent":
        copies = profile.persistent.astype(np.int64)
    else:
        copies = alive(profile, peak_tick(profile))
    holders = hold(profile, copies, by)
    return {one.name: one.blocks if key == "blocks" else one.size for one in holders}
