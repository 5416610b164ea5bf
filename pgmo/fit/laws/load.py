"""Requests of a job at one batch, and what PyTorch's allocator reserves for them."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pgmo.fit.categories import GRADIENT, NAMES
from pgmo.profiler.caching.model import AllocatorSettings, Reserved, simulate_profile
from pgmo.profiler.profile import NEVER, Profile
from pgmo.rehearsal.environment import Way

_REPEATS = 7
"""Repetitions of a history's last step, after which PyTorch's allocator counts as settled. At the
largest batch of a card, ResNet-50 ran out of memory only in its fourth step."""

PYTORCH: tuple[Way, ...] = ("default", "expandable")
"""Ways with PyTorch's own allocator."""

_SETTINGS = {
    "default": AllocatorSettings(),
    "expandable": AllocatorSettings.from_text("expandable_segments:True"),
}


@dataclass(frozen=True, eq=False)
class Load:
    """Profile of a job at one batch, with the category of each block.

    Attributes:
        profile: all requests of the history.
        category: index into `categories.NAMES` for each block, shape (n,).
        convolution: for each block, the number of the convolution that can run without this block,
            or -1, shape (n,); empty if unknown. See `categories.dispensable`.
        begins: ticks at which the second and the third step begin; None if the history is shorter.
    """

    profile: Profile
    category: NDArray[np.int8]
    convolution: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    begins: tuple[int, int] | None = None

    @cached_property
    def curves(self) -> NDArray[np.int64]:
        """Live bytes of each category after each request, shape (len(NAMES), ticks)."""
        return self._curves(self.profile.size)

    def _curves(self, size: NDArray[np.int64]) -> NDArray[np.int64]:
        ticks = self.profile.ticks
        change = np.zeros((len(NAMES), ticks + 1), np.int64)
        end = np.where(self.profile.end == NEVER, ticks, np.minimum(self.profile.end, ticks))
        np.add.at(change, (self.category, self.profile.start), size)
        np.add.at(change, (self.category, end), -size)
        return np.cumsum(change[:, :-1], axis=1)

    @property
    def peak(self) -> int:
        """Peak of the live bytes."""
        return int(self.curves.sum(axis=0).max(initial=0))

    @cached_property
    def least(self) -> int:
        """Peak of the live bytes if no convolution gets a workspace that it can run without."""
        size = self.profile.size
        if len(self.convolution):
            size = np.where(self.convolution >= 0, 0, size)
        return int(self._curves(size).sum(axis=0).max(initial=0))

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes of each category at the first tick at which the live bytes peak."""
        whole = self.curves.sum(axis=0)
        tick = int(whole.argmax()) if whole.size else 0
        found = self.curves[:, tick] if whole.size else np.zeros(len(NAMES), np.int64)
        return {name: int(size) for name, size in zip(NAMES, found, strict=True)}

    def stepping(self) -> list[tuple[int, int]]:
        """Return the tick ranges from the last gradient to the end of each step; [] if unknown."""
        if self.begins is None:
            return []
        born = self.profile.start[self.category == GRADIENT]
        found = []
        for begin, end in pairwise((0, *self.begins, self.profile.ticks)):
            inside = born[(born >= begin) & (born < end)]
            if len(inside):
                found.append((int(inside.max()) + 1, end))
        return found

    def simulate(self, way: Way, capacity: int | None = None) -> Reserved:
        """Simulate PyTorch's allocator, with a way of `PYTORCH`, on a card of `capacity` bytes."""
        profile, rows = self._repeated
        return simulate_profile(
            profile,
            _SETTINGS[way],
            iterations=1,
            capacity=capacity,
            convolution=self.convolution[rows].tolist() if len(self.convolution) else (),
        )

    @cached_property
    def _repeated(self) -> tuple[Profile, NDArray[np.intp]]:
        if self.begins is None:
            return self.profile, np.arange(len(self.profile))
        return repeated(self.profile, self.begins, _REPEATS)


def repeated(
    profile: Profile, begins: tuple[int, int], times: int
) -> tuple[Profile, NDArray[np.intp]]:
    """Return a history with copies of its third step, and the original of each row, shape (n,).

    history   |- step 1 -|- step 2 -|- step 3 -|
    repeated  |- step 1 -|- step 2 -|- step 3 -|- step 3 -|- step 3 -| ...

    On a nearly full card, PyTorch's allocator may run out of memory only after the third step.
    `begins` has the ticks at which the second and the third step begin. If these steps make
    different requests, the history is returned unchanged.
    """
    second, third = begins
    ticks = profile.ticks
    length = ticks - third
    same = np.arange(len(profile))
    order = np.argsort(profile.start, kind="stable")
    start = profile.start[order]
    before = order[(start >= second) & (start < third)]
    last = order[start >= third]
    if third - second != length or not _alike(profile, before, last, length):
        return profile, same
    until = ticks + times * length
    open_end = (profile.end == NEVER) | (profile.end >= ticks)
    end = np.where(open_end, until, profile.end)
    # A block that the third step has not freed gets its lifetime from the second step.
    life = np.where(open_end[before], until, profile.end[before] - profile.start[before])
    turns = np.arange(1, times + 1) * length
    starts = (profile.start[last][None, :] + turns[:, None]).ravel()
    end[last] = np.minimum(profile.start[last] + life, until)
    rows = np.concatenate([same, np.tile(last, times)])
    longer = Profile.from_columns(
        size=profile.size[rows],
        start=np.concatenate([profile.start, starts]),
        end=np.concatenate([end, np.minimum(starts + np.tile(life, times), until)]),
        ticks=until,
        stream=profile.stream[rows],
        circular=False,
        steady=False,
    )
    return replace(longer, meta=profile.meta), rows


def _alike(profile: Profile, before: NDArray[np.intp], last: NDArray[np.intp], length: int) -> bool:
    """Return whether two steps make the same requests."""
    return (
        len(before) == len(last)
        and all(np.array_equal(one[before], one[last]) for one in (profile.size, profile.stream))
        and np.array_equal(profile.start[before] + length, profile.start[last])
    )
