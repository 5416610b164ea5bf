"""Variables that keep blocks alive, from the notes of `pgmo run --who-keeps` in a profile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgmo.profiler.profile import Profile

_GROWING, _ALIVE = "kept by", "alive"
"""Keys of the notes on keepers in a profile."""


@dataclass(frozen=True)
class KnownKeepers:
    """Keepers: variables, attributes and closures that keep blocks alive, one line each.

    Args:
        growing: keepers of blocks that accumulate from iteration to iteration.
        alive: keepers of the largest live blocks, with the time of the observation.
    """

    growing: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return a line of plain text for each keeper."""
        named = {_GROWING: self.growing, _ALIVE: self.alive}
        return [f"{key:<12}{one}" for key, lines in named.items() for one in lines]


def find_kept(profile: Profile) -> KnownKeepers:
    """Return the keepers in a profile's notes; empty if there are none."""
    notes = profile.meta.notes
    return KnownKeepers(*(tuple(notes.get(key, "").splitlines()) for key in (_GROWING, _ALIVE)))


def with_kept(profile: Profile, growing: Sequence[str], alive: Sequence[str]) -> Profile:
    """Return the profile with these `KnownKeepers` in its notes; unchanged if there are none."""
    found = {_GROWING: "\n".join(growing), _ALIVE: "\n".join(alive)}
    found = {key: text for key, text in found.items() if text}
    if not found:
        return profile
    return replace(profile, meta=replace(profile.meta, notes={**profile.meta.notes, **found}))
