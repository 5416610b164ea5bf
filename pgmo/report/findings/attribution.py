"""Origins of the memory at a profile's peak.

peak 96 B = GPT.blocks.0 64 B + GPT.head 32 B          every grouping adds up to the peak
          = forward 80 B + backward 16 B
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.report.blocks.origins import By, names_of

OTHERS = "(others)"
"""Name of the row with the sum of all holders beyond the requested number."""


@dataclass(frozen=True)
class Holder:
    """Live memory of one origin at the peak.

    Args:
        name: the phase, module, operator, ...; "(untagged)" for blocks without a tag; "(before
            recording)" for blocks from before the recording; "(others)" for the sum of all further
            origins in a shortened list.
        size: bytes.
        blocks: number of live blocks; two live copies of a block count twice.
    """

    name: str
    size: int
    blocks: int


_FIELDS: Mapping[By, str] = {
    "module": "modules",
    "op": "operators",
    "phase": "phases",
    "file": "files",
    "stream": "streams",
    "size": "sizes",
}
"""Field of `Peak` for each grouping."""


@dataclass(frozen=True)
class Peak:
    """First tick of the peak, and the origins that hold memory at this tick, largest first.

    Each list of holders adds up to `size` and `blocks` exactly.
    """

    tick: int
    size: int
    blocks: int
    phases: tuple[Holder, ...]
    modules: tuple[Holder, ...]
    operators: tuple[Holder, ...]
    files: tuple[Holder, ...]
    streams: tuple[Holder, ...]
    sizes: tuple[Holder, ...]

    @property
    def holders(self) -> Mapping[By, tuple[Holder, ...]]:
        """Lists of holders by grouping."""
        return {by: getattr(self, field) for by, field in _FIELDS.items()}


def find_peak(profile: Profile, top: int = 10) -> Peak:
    """Return the peak of the live bytes and the origins of its blocks.

    If two copies of a block are alive at once, both count. Persistent and shared blocks do not
    count. In a profile without a history, all blocks count.

    Args:
        profile: the profile.
        top: number of holders per grouping; all further holders form one row, "(others)".

    Example:
        >>> profile = Profile.from_columns(size=[4, 2], start=[0, 1], end=[1, 4], ticks=2)
        >>> find_peak(profile).size
        6
    """
    tick = peak_tick(profile)
    copies = alive(profile, tick)
    return Peak(
        tick=tick,
        size=int((profile.size * copies).sum()),
        blocks=int(copies.sum()),
        **{field: hold(profile, copies, by, top) for by, field in _FIELDS.items()},
    )


def peak_tick(profile: Profile) -> int:
    """Return the first tick of the largest load; 0 for an empty profile."""
    load = profile.load_curve()
    return int(load.argmax()) if load.size else 0


def alive(profile: Profile, tick: int) -> NDArray[np.int64]:
    """Return the number of live copies (0, 1, 2) of each block at a tick of a repeated iteration.

    Persistent and shared blocks have 0. In a profile without a history, all blocks have 1.

    Returns:
        Numbers of copies, shape (n,).
    """
    if profile.is_moment:
        return np.ones(len(profile), np.int64)
    count = ((profile.start <= tick) & (tick < profile.end)).astype(np.int64)
    for turn in (1, 2):  # blocks of the two previous iterations
        count += tick + turn * profile.ticks < profile.end
    count[profile.turns == 0] = 0
    return count


def hold(
    profile: Profile, copies: NDArray[np.int64], by: By, top: int | None = None
) -> tuple[Holder, ...]:
    """Group live copies by origin, largest first. Origins beyond `top` share the last row."""
    rows = np.flatnonzero(copies)
    names = names_of(profile, by)
    counts = copies[rows]
    sizes = (profile.size[rows] * counts).tolist()
    return rank(zip([names[row] for row in rows], sizes, counts.tolist(), strict=True), top)


def rank(rows: Iterable[tuple[str, int, int]], top: int | None = None) -> tuple[Holder, ...]:
    """Add up bytes and blocks by name, largest first. Names beyond `top` share the last row."""
    sums: dict[str, list[int]] = {}
    for name, size, count in rows:
        entry = sums.setdefault(name, [0, 0])
        entry[0] += size
        entry[1] += count
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    ranked = [Holder(name, *entry) for name, entry in ordered]
    if top is None or len(ranked) <= top:
        return tuple(ranked)
    rest = ranked[top:]
    others = Holder(OTHERS, sum(one.size for one in rest), sum(one.blocks for one in rest))
    return (*ranked[:top], others)
