"""Comparison of two profiles, two plans, or a profile and a plan: growth and new origins."""

from collections.abc import Mapping
from dataclasses import dataclass

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import Profile
from pgmo.report.blocks.origins import UNNAMED, By, describe, size_classes
from pgmo.report.findings.attribution import alive, hold, peak_tick
from pgmo.report.findings.fragmentation import find_fragmentation
from pgmo.report.findings.moment import Moment, find_moment
from pgmo.report.findings.unused_memory import UnusedMemory

GROUPS: tuple[By, ...] = ("phase", "module", "op", "file")
"""Groupings by which the peaks of two profiles are compared."""


@dataclass(frozen=True)
class Side:
    """Figures of a profile or a plan; sizes in bytes.

    `arena` is None for a profile. Without a history, `ticks`, `requested` and `max_load` are None.
    """

    kind: str
    blocks: int
    ticks: int | None
    requested: int | None
    max_load: int | None
    arena: int | None
    persistent: int
    fingerprint: str


@dataclass(frozen=True)
class Change:
    """Bytes of one origin in both profiles."""

    name: str
    before: int
    after: int

    @property
    def growth(self) -> int:
        """Increase in bytes, negative for a decrease."""
        return self.after - self.before


@dataclass(frozen=True)
class Resized:
    """Origin whose requests differ in number or size between two profiles; sizes in bytes."""

    origin: str
    before_blocks: int
    before_size: int
    after_blocks: int
    after_size: int


@dataclass(frozen=True)
class Comparison:
    """Differences between two profiles or plans: the sides of the comparison.

    Args:
        before: figures of the first side.
        after: figures of the second side.
        same: whether both sides have the same requests, as their fingerprints show.
        peaks: origins of the memory at the peaks of two profiles by grouping, largest change first.
            Unchanged origins are omitted. Groupings except "phase" are omitted if no origin has a
            name. If a side is a plan, this field and the next three are empty.
        new: origins only of the second side, with their bytes per iteration.
        gone: origins only of the first side, with their bytes per iteration.
        resized: origins of both sides with another number of blocks or other sizes.
        moments: findings for each side without a history; None for a side with a history.
        unused: reserved bytes of each side that no block had requested, by reason; None if unknown.
    """

    before: Side
    after: Side
    same: bool
    peaks: Mapping[By, tuple[Change, ...]]
    new: tuple[Change, ...]
    gone: tuple[Change, ...]
    resized: tuple[Resized, ...]
    moments: tuple[Moment | None, Moment | None] = (None, None)
    unused: tuple[UnusedMemory | None, UnusedMemory | None] = (None, None)


def compare(before: Profile | Plan, after: Profile | Plan) -> Comparison:
    """Compare two profiles, two plans, or a profile and a plan. Plans have no origins."""
    sides = side_of(before), side_of(after)
    moments = _moment(before), _moment(after)
    same = before.fingerprint == after.fingerprint
    if not (isinstance(before, Profile) and isinstance(after, Profile)):
        return Comparison(*sides, same, {}, (), (), (), moments)
    peaks: dict[By, tuple[Change, ...]] = {}
    for by in GROUPS:
        held = _at_peak(before, by), _at_peak(after, by)
        if by == GROUPS[0] or not {*held[0], *held[1]} <= UNNAMED:
            peaks[by] = _changes(*held)
    old, new = _origins(before), _origins(after)
    both = [name for name in new if name in old and new[name] != old[name]]
    resized = [
        Resized(name, len(old[name]), sum(old[name]), len(new[name]), sum(new[name]))
        for name in both
    ]
    resized.sort(key=lambda one: (-abs(one.after_size - one.before_size), one.origin))
    return Comparison(
        *sides,
        same,
        peaks,
        new=_changes({}, {name: sum(sizes) for name, sizes in new.items() if name not in old}),
        gone=_changes({name: sum(sizes) for name, sizes in old.items() if name not in new}, {}),
        resized=tuple(resized),
        moments=moments,
        unused=(_unused(before), _unused(after)),
    )


def _moment(what: Profile | Plan) -> Moment | None:
    return None if isinstance(what, Plan) else find_moment(what)


def _unused(profile: Profile) -> UnusedMemory | None:
    seen = None if profile.trace is None else find_fragmentation(profile.trace)
    return None if seen is None else seen.unused


def side_of(what: Profile | Plan) -> Side:
    """Return the figures of a profile or a plan."""
    if isinstance(what, Plan):
        planned = what.offset != UNPLANNED
        return Side(
            kind="plan",
            blocks=len(what),
            ticks=what.ticks,
            requested=int(what.size[planned].sum()),
            max_load=what.max_load,
            arena=what.arena,
            persistent=int(what.size[what.end < 0].sum()),
            fingerprint=what.fingerprint,
        )
    is_recorded = find_moment(what) is None
    return Side(
        kind="profile",
        blocks=len(what),
        ticks=what.ticks if is_recorded else None,
        requested=int(what.size[what.turns > 0].sum()) if is_recorded else None,
        max_load=what.max_load() if is_recorded else None,
        arena=None,
        persistent=int(what.size[what.persistent].sum()),
        fingerprint=what.fingerprint,
    )


def _at_peak(profile: Profile, by: By) -> dict[str, int]:
    copies = alive(profile, peak_tick(profile))
    return {holder.name: holder.size for holder in hold(profile, copies, by)}


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Change, ...]:
    names = {*before, *after}
    changes = [Change(name, before.get(name, 0), after.get(name, 0)) for name in names]
    different = [change for change in changes if change.growth]
    return tuple(sorted(different, key=lambda change: (-abs(change.growth), change.name)))


def _origins(profile: Profile) -> dict[str, list[int]]:
    """Return each origin's sizes, ascending. Unknown origins are grouped by size class."""
    described = [describe(tag) for tag in profile.tags]
    origins: dict[str, list[int]] = {}
    columns = (profile.tag.tolist(), profile.size.tolist(), size_classes(profile.size))
    for tag, size, size_class in zip(*columns, strict=True):
        name = described[tag] if tag >= 0 else f"blocks of {size_class}"
        origins.setdefault(name, []).append(size)
    return {name: sorted(sizes) for name, sizes in origins.items()}
