"""What a job asks for at any batch: one profile where nothing varies, else laws over several.

evidence at 2, 4        requests paired, sizes fitted          Law
law.at(18)  -->  a profile and its categories  -->  what each way reserves on a card
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import OptionError, ProfileError, RehearsalError
from pgmo.fit.categories import GRADIENT, NAMES
from pgmo.fit.evidence import Evidence
from pgmo.fit.need import Need, Way
from pgmo.fit.repeated import repeated
from pgmo.fit.scaling import ScaledProfile
from pgmo.profiler.caching.curves import Reserved
from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile
from pgmo.profiler.profile import NEVER, Profile

ABOVE = 16 << 20
"""Bytes that pgmo is taken to take over the live ones, where no rehearsal has shown it.

Pages that are in use in part: in a rehearsal of GPT-2 medium on 16 GiB they were 7 MiB.
"""

_CLOSE = 0.001
"""Share of the peak by which laws may miss a rehearsal by way of pgmo, which they leave out."""

AGAIN = 7
"""How often the last step of a history is repeated before an allocator is taken to have settled.

On a ResNet-50 at the largest batch of a card memory ran out in the fourth step.
"""

PAGE = 2 << 20
"""Bytes that the driver maps at once."""

PYTORCH: tuple[Way, ...] = ("default", "expandable")

_SETTINGS = {
    "default": AllocatorSettings(),
    "expandable": AllocatorSettings.from_text("expandable_segments:True"),
}


@dataclass(frozen=True, eq=False)
class Load:
    """A profile of a job at one batch, with the category of each block.

    Attributes:
        profile: of the whole history.
        category: of each block, shape (n,).
        convolution: of each block, which convolution can do without it, or -1; empty for none.
        begins: ticks at which the second and the third step begin; None where that is not known.

    Example:
        >>> profile = Profile.from_columns(size=[4, 2], start=[0, 1], end=[2, 2], ticks=2)
        >>> Load(profile, np.array([1, 0], np.int8)).at_peak
        {'activations': 2, 'parameters': 4, 'gradients': 0, 'optimizer_state': 0, 'workspaces': 0}
    """

    profile: Profile
    category: NDArray[np.int8]
    convolution: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    begins: tuple[int, int] | None = None

    @cached_property
    def curves(self) -> NDArray[np.int64]:
        """Bytes alive of each category after each request, shape (len(NAMES), ticks)."""
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
        """Most bytes alive at once."""
        return int(self.curves.sum(axis=0).max(initial=0))

    @cached_property
    def least(self) -> int:
        """Most bytes alive at once where no convolution gets a workspace that it can do without."""
        size = self.profile.size
        if len(self.convolution):
            size = np.where(self.convolution >= 0, 0, size)
        return int(self._curves(size).sum(axis=0).max(initial=0))

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes of each category at the first moment at which most are alive."""
        whole = self.curves.sum(axis=0)
        tick = int(whole.argmax()) if whole.size else 0
        found = self.curves[:, tick] if whole.size else np.zeros(len(NAMES), np.int64)
        return {name: int(size) for name, size in zip(NAMES, found, strict=True)}

    def stepping(self) -> list[tuple[int, int]]:
        """Ticks between which optimizers step: from the last gradient of a step to its end."""
        if self.begins is None:
            return []
        born = self.profile.start[self.category == GRADIENT]
        found = []
        for begin, end in pairwise((0, *self.begins, self.profile.ticks)):
            inside = born[(born >= begin) & (born < end)]
            if len(inside):
                found.append((int(inside.max()) + 1, end))
        return found

    def total(self, name: str) -> int:
        """The most bytes of one category that are alive at once."""
        return int(self.curves[NAMES.index(name)].max(initial=0))

    def simulate(self, way: Way, capacity: int | None = None) -> Reserved:
        """What PyTorch's allocator takes, by its model. `way` is not pgmo."""
        profile, rows = self._longer
        return simulate_profile(
            profile,
            _SETTINGS[way],
            iterations=1,
            capacity=capacity,
            convolution=self.convolution[rows].tolist() if len(self.convolution) else (),
        )

    @cached_property
    def _longer(self) -> tuple[Profile, NDArray[np.intp]]:
        if self.begins is None:
            return self.profile, np.arange(len(self.profile))
        return repeated(self.profile, self.begins, AGAIN)


class Law:
    """What a job asks for, at any value of what varies.

    Args:
        evidence: rehearsals with whole histories: one, of a job that does not vary, or several
            at distinct values.
        above: bytes that pgmo takes over the live ones, where no rehearsal here was by way of it.

    Raises:
        RehearsalError: when a history is not whole.
        ProfileError: when the histories do not correspond.
    """

    def __init__(self, evidence: Sequence[Evidence], above: int | None = None) -> None:
        whole = [one for one in evidence if one.whole]
        if not whole:
            raise RehearsalError(
                "no rehearsal got through three iterations, so nothing is known of the loop: "
                "rehearse on a larger card, or with a smaller batch"
            )
        self.whole = whole
        byvalue = {one.value: one for one in _whole_requests(whole)}  # of several the last
        self.evidence = sorted(byvalue.values(), key=lambda one: one.value or 0)
        self.last = self.evidence[-1]
        shown = [_above(one) for one in whole if one.way == "pgmo" and one.rehearsal.fits]
        self.above = max(shown, default=above)
        self._fitted = _fit(self.evidence)
        self._known: dict[int | None, Load] = {}

    @property
    def context(self) -> int:
        """Bytes of the context."""
        return self.last.rehearsal.context

    @property
    def describes(self) -> str:
        """What was learned, in a sentence."""
        if self._fitted is None:
            return "one history, as it is"
        return self._fitted[0].description

    @property
    def uncertainty(self) -> float:
        """Share of the bytes at the largest value rehearsed whose sizes follow no law."""
        return 0.0 if self._fitted is None else self._fitted[0].estimated_share

    def at(self, value: int | None) -> Load:
        """What is asked for at a value.

        Raises:
            OptionError: for another value than the one that is known, where nothing varies.
            ProfileError: where the laws say nothing.
        """
        if value not in self._known:
            exact = next((one for one in self.evidence if one.value == value), None)
            if exact is not None:
                profile, of = _given(exact), exact
            elif self._fitted is None or value is None:
                raise OptionError(f"nothing is known at {value}: rehearse at two values at least")
            else:
                fitted, of = self._fitted
                profile = fitted.at(value)
            self._known[value] = Load(
                replace(profile, trace=None), of.category, of.convolution, of.begins
            )
        return self._known[value]

    def holds(self, value: int | None, usable: int) -> bool:
        """Whether the live bytes fit on a card, and a page: nobody needs less."""
        try:
            return self.at(value).least + self.context + PAGE <= usable
        except ProfileError:
            return False

    def fits(self, value: int | None, usable: int, way: Way) -> bool:
        """Whether it runs on a card with that many usable bytes: memory does not run out.

        PyTorch gives cached memory back before it gives up, so this may be true where more is
        reserved at the peak on a larger card.
        """
        capacity = usable - self.context
        try:
            load = self.at(value)
        except ProfileError:
            return False
        if load.least > capacity:
            return False
        if way == "pgmo":
            return self.with_pgmo(load.least) <= capacity
        return load.simulate(way, capacity).failed is None

    def with_pgmo(self, peak: int) -> int:
        """Bytes that pgmo takes of a card for a peak of live bytes, context left out."""
        return peak + (ABOVE if self.above is None else self.above)

    def need(self, value: int | None) -> Need:
        """What the job needs at a value, by every way."""
        load = self.at(value)
        exact = any(one.value == value for one in self.evidence)
        reserved: dict[str, int] = {way: load.simulate(way).peak_reserved for way in PYTORCH}
        seen = [one for one in self.evidence if one.way == "pgmo" and one.value == value]
        pgmo = max((taken(one) for one in seen), default=self.with_pgmo(load.peak))
        where = "" if value is None or exact else f"by laws over {self._span()}: {self.describes}"
        notes = [one for one in (*self.last.rehearsal.notes, where) if one]
        return Need(
            **load.at_peak,
            context=self.context,
            allocated_peak=load.peak,
            reserved=reserved | {"pgmo": pgmo},
            uncertainty=0.0 if exact else self.uncertainty,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _span(self) -> str:
        return ", ".join(str(one.value) for one in self.evidence)


def _whole_requests(whole: Sequence[Evidence]) -> list[Evidence]:
    """Those in which no convolution went without its workspace for want of memory.

    The others lack requests, and from these no law follows.
    """
    return [one for one in whole if not one.known.get("ran_out")] or list(whole)


def _fit(evidence: Sequence[Evidence]) -> tuple[ScaledProfile, Evidence] | None:
    """The laws, and whose requests they tell; None where nothing varies.

    While pgmo records, operators are watched, and a few ask for more. So the histories of PyTorch
    as it is are enough, if they tell what the others held.
    """
    if len(evidence) < 2:
        return None
    plain = [one for one in evidence if one.way != "pgmo"]
    if len(plain) > 1:
        fitted, of = _fit_all(plain)
        others = [one for one in evidence if one.way == "pgmo"]
        if all(_tells(fitted, of, one) for one in others):
            return fitted, of
    return _fit_all(evidence)


def _fit_all(evidence: Sequence[Evidence]) -> tuple[ScaledProfile, Evidence]:
    values = [int(one.value or 0) for one in evidence]
    return ScaledProfile(values, [_given(one) for one in evidence]), evidence[-1]


def _tells(fitted: ScaledProfile, of: Evidence, other: Evidence) -> bool:
    """Whether laws give the peak of a rehearsal that they were not made from."""
    try:
        told = Load(fitted.at(int(other.value or 0)), of.category).peak
    except ProfileError:
        return False
    true = Load(_given(other), other.category).peak
    return abs(told - true) <= _CLOSE * true


def taken(evidence: Evidence) -> int:
    """Bytes of the card that allocators took in a rehearsal, context left out."""
    return evidence.rehearsal.card_peak - evidence.rehearsal.context


def _above(evidence: Evidence) -> int:
    """Bytes that pgmo took of the card over the live ones."""
    return max(0, taken(evidence) - Load(_given(evidence), evidence.category).peak)


def _given(evidence: Evidence) -> Profile:
    assert evidence.profile is not None
    return evidence.profile
