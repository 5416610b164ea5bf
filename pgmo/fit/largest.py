"""Search for the largest batch that fits on a card, without that card.

rehearse 2, 4  -->  laws  -->  B  -->  rehearse B, card's size  -->  it fits: proved
                      ^                        |
                      +------ if it does not fit, once more with B's history
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgmo.cards import Card
from pgmo.errors import OptionError, ProfileError, RehearsalError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.laws.law import Law, taken
from pgmo.fit.laws.need import Need
from pgmo.rehearsal.environment import Way
from pgmo.units import format_bytes

_VALUES = (2, 4)
"""Default batches to rehearse; above 1, because normalisation runs other code at batch 1."""

_OTHER_VALUES = (64, 128, 256)
"""Default values of options other than batches. A quadratic law has three unknowns."""

MOST = 4
"""Maximum number of rehearsals of a search, including the rehearsals at the small values."""

LIMIT = 1 << 22
"""Largest value that a search considers by default."""

_EXACT = 0.001
"""Maximum share of bytes without a law. Above it, a search with pgmo also tries the next value."""

_MIN_GROWTH = 0.8
"""Minimum ratio of a peak to its prediction. Below it, an error reports a lack of samples."""

_UNLIMITED = 1 << 42
"""Memory, in bytes, of the card on which laws are learned: no rehearsal runs out of it."""


@dataclass(frozen=True)
class Largest:
    """Largest value that fits with one allocator.

    Attributes:
        way: allocator that serves the requests.
        change: change of the script, or None.
        value: the largest value that fits; 0 if not even 1 fits.
        proved: whether a rehearsal with `value` at the card's size fitted.
        need: need at `value`; None if `value` is 0.
    """

    way: Way
    change: str | None
    value: int
    proved: bool
    need: Need | None


@dataclass(frozen=True, eq=False)
class Search:
    """Result of a search: one result for each allocator, the laws, and all evidence."""

    found: tuple[Largest, ...]
    law: Law
    evidence: tuple[Evidence, ...]

    def of(self, way: Way) -> Largest:
        """Return the result for an allocator that was searched."""
        return next(one for one in self.found if one.way == way)


def accumulate(effective: int, most: int) -> tuple[int, int]:
    """Split a batch into the fewest equal micro-batches that fit.

    Args:
        effective: samples of one optimizer step.
        most: the largest micro-batch that fits.

    Returns:
        Size and number of the micro-batches; their product is the effective batch.

    Raises:
        OptionError: if one of the numbers is below 1.

    Example:
        >>> accumulate(256, 18), accumulate(8, 18)
        ((16, 16), (8, 1))
    """
    if effective < 1 or most < 1:
        raise OptionError(
            f"a batch of {effective} cannot be split into micro-batches of at most {most}; "
            "both must be at least 1"
        )
    steps = next(one for one in range(-(-effective // most), effective + 1) if not effective % one)
    return effective // steps, steps


def values_of(job: Job) -> tuple[int, ...]:
    """Return the default values to rehearse."""
    batch = re.search(r"batch|\bbs\b|^-b$", job.option, re.IGNORECASE)
    return _VALUES if batch else _OTHER_VALUES


def learn(job: Job, card: Card, values: Sequence[int], change: str | None = None) -> list[Evidence]:
    """Rehearse a job at small values, on a card of the same kind with unlimited memory.

    The rehearsals run without pgmo, whose recording requests a little memory that follows no law.
    """
    return [collect(job, unlimited(card), value=value, change=change) for value in values]


def unlimited(card: Card) -> Card:
    """Return a card of the same kind on which nothing runs out of memory."""
    return replace(card, memory=_UNLIMITED, usable=_UNLIMITED)


def largest_value(law: Law, usable: int, way: Way, *, live: bool = False) -> int:
    """Return the largest value that the laws predict to fit; 0 if not even 1 fits.

    Args:
        law: memory of the job as a function of the value.
        usable: bytes of the card that a job may take.
        way: allocator that serves the requests.
        live: whether only the live bytes have to fit. The result is then an upper bound.
    """

    def fits(value: int) -> bool:
        return law.holds(value, usable) if live else law.fits(value, usable, way)

    low, high = 0, 1
    while high <= LIMIT and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def search(
    job: Job,
    card: Card,
    *,
    ways: Sequence[Way] = ("pgmo", "default"),
    values: Sequence[int] = (),
    prove: bool = True,
    limit: int = LIMIT,
) -> Search:
    """Find the largest value of the varying option that fits on a card, for each allocator.

    `pgmo.fit.ask.Question` describes the options. One rehearsal is made at each of `values`.
    Further rehearsals prove the results, until `MOST` rehearsals were made in all.

    Raises:
        OptionError: if nothing varies, or fewer than two values are given.
        RehearsalError: if the job cannot be rehearsed, or no laws can be learned.
    """
    if not job.varies:
        raise OptionError(
            'nothing varies: name the option that does, as in --vary "--batch-size {}"'
        )
    values = values or values_of(job)
    if len(set(values)) < 2:
        raise OptionError(
            f"predictions need at least two different values, and {list(values)} has fewer"
        )
    evidence = learn(job, card, sorted(set(values)))
    law = _law(evidence)
    found = []
    for way in ways:
        one, law = _proved(job, card, way, law, evidence, MOST if prove else 0, limit)
        found.append(one)
    return Search(tuple(found), law, tuple(evidence))


def _proved(
    job: Job,
    card: Card,
    way: Way,
    law: Law,
    evidence: list[Evidence],
    most: int,
    limit: int,
) -> tuple[Largest, Law]:
    """Return the largest value with one allocator, and the laws from all rehearsals.

    Rehearsals are appended to `evidence`, up to `most`. Values that ran are lower bounds, and
    values that ran out of memory are upper bounds, whatever the laws predict.
    """
    low, high = 0, limit + 1
    value = min(largest_value(law, card.usable, way), limit)
    while value and value != low and len(evidence) < most:
        one = collect(job, card, value=value, way=way, work=False)
        evidence.append(one)
        if fits_to_its_end(one, card):
            _check_grown(job, value, one.allocated_peak, law.need(value).allocated_peak)
            low = value
        else:
            high = value
        law = _law(evidence)
        value = min(max(largest_value(law, card.usable, way), low), high - 1)
        if way == "pgmo" and value == low:
            # pgmo takes fewer pages on a full card than on a larger one: try what live bytes allow.
            value = min(largest_value(law, card.usable, way, live=True), high - 1)
            if value == low and law.uncertainty > _EXACT:
                value = min(low + 1, high - 1)  # the laws may be conservative: try one more
        elif value == low:
            # The model of PyTorch's allocator may be conservative on a full card: bisect.
            bound = min(largest_value(law, card.usable, way, live=True), high - 1)
            value = (low + bound + 1) // 2
    value = low or value
    need = law.need(value) if value else None
    return Largest(way, None, value, value == low and value > 0, need), law


def fits_to_its_end(evidence: Evidence, card: Card) -> bool:
    """Return whether a job that was rehearsed on a card runs to its last step on this card.

    If the number of steps is unknown, the last step is the last rehearsed step.
    """
    if evidence.growth is None or not evidence.rehearsal.fits:
        return evidence.rehearsal.fits
    need = taken(evidence) + evidence.rehearsal.context + evidence.growth.total
    return need <= card.usable


def _check_grown(job: Job, value: int, took: int, predicted: int) -> None:
    """Raise `RehearsalError` if the peak is far below its prediction."""
    if took < _MIN_GROWTH * predicted:
        raise RehearsalError(
            f"at {job.option} {value} at most {format_bytes(took)} are allocated, but smaller "
            f"values predict {format_bytes(predicted)}: the script probably has too few samples "
            "for this value. Give it more samples, which may be made up, or ask about one value, "
            "with --value or batch="
        )


def _law(evidence: Sequence[Evidence]) -> Law:
    """Fit laws to the histories of all or of the largest values, or raise `RehearsalError`."""
    whole = [one for one in evidence if one.whole]
    for first in range(max(1, len(whole) - 1)):
        try:
            return Law(whole[first:])
        except ProfileError as error:
            failure = error
    raise RehearsalError(
        "the requests at different values do not correspond, so no larger value can be "
        f"predicted: {failure}. Ask about one value, with --value or batch="
    )
