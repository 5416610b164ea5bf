"""Who holds the memory at a profile's peak, by phase, module and operator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile


@dataclass(frozen=True)
class Holder:
    """Live memory at the peak that one origin accounts for.

    Args:
        name: the phase, module or operator; "(untagged)" for blocks without a tag.
        size: bytes.
        blocks: number of live blocks.
    """

    name: str
    size: int
    blocks: int


@dataclass(frozen=True)
class Peak:
    """The first tick of the largest load, and who holds it, largest first."""

    tick: int
    size: int
    blocks: int
    phases: tuple[Holder, ...]
    modules: tuple[Holder, ...]
    operators: tuple[Holder, ...]


def find_peak(profile: Profile, top: int = 10) -> Peak:
    """Finds the peak of the steady state and its holders.

    A block that outlives a period counts as often as it is alive at once. Blocks that are
    not planned, the persistent and the shared ones, do not count.

    Args:
        profile: the profile.
        top: holders to name of each kind.

    Example:
        >>> profile = Profile.from_columns(size=[4, 2], start=[0, 1], end=[1, 4], ticks=2)
        >>> find_peak(profile).size
        6
    """
    load = profile.load_curve()
    if not load.size:
        return Peak(0, 0, 0, (), (), ())
    tick = int(load.argmax())
    copies = alive(profile, tick)
    rows = np.flatnonzero(copies)
    size = profile.size[rows] * copies[rows]
    origins = [profile.tags[tag] if tag >= 0 else None for tag in profile.tag[rows].tolist()]
    kinds = {
        kind: [getattr(tag, kind) if tag else "" for tag in origins]
        for kind in ("phase", "module", "op")
    }
    return Peak(
        tick=tick,
        size=int(load[tick]),
        blocks=int(copies.sum()),
        phases=_rank(kinds["phase"], size, copies[rows], top),
        modules=_rank(kinds["module"], size, copies[rows], top),
        operators=_rank(kinds["op"], size, copies[rows], top),
    )


def alive(profile: Profile, tick: int) -> NDArray[np.int64]:
    """How many copies of each block are alive at a tick of the steady state, shape (n,): 0, 1, 2.

    Example:
        >>> profile = Profile.from_columns(size=[4, 2], start=[0, 1], end=[1, 5], ticks=2)
        >>> alive(profile, 0).tolist(), alive(profile, 1).tolist()
        ([1, 2], [0, 2])
    """
    count = ((profile.start <= tick) & (tick < profile.end)).astype(np.int64)
    for turn in (1, 2):  # the blocks of the last iteration and of the one before
        count += tick + turn * profile.ticks < profile.end
    count[profile.turns == 0] = 0
    return count


def _rank(
    names: list[str], size: NDArray[np.int64], copies: NDArray[np.int64], top: int
) -> tuple[Holder, ...]:
    sums: dict[str, list[int]] = {}
    for name, one, count in zip(names, size.tolist(), copies.tolist(), strict=True):
        entry = sums.setdefault(name or "(untagged)", [0, 0])
        entry[0] += one
        entry[1] += count
    ranked = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(Holder(name, *entry) for name, entry in ranked[:top])
