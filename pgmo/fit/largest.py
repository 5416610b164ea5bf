"""Search for the largest batch that fits on a card, before anything runs on that card.

rehearse 2, 4  -->  laws  -->  B  -->  rehearse B on the card  -->  it fits: proved
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
"""Default batches at which laws are learned. At batch 1, normalisation runs other code."""

_OTHER_VALUES = (64, 128, 256)
"""Default values for options other than batches: a quadratic law has three unknowns."""

MOST = 4
"""Maximum number of rehearsals of one search, proofs included."""

LIMIT = 1 << 22
"""Largest value that a search considers by default."""

_EXACT = 0.001
"""Share of the bytes that may follow no law while the laws still count as exact."""

_MIN_GROWTH = 0.8
"""Minimum share of the predicted bytes. Below it, the script does not make the requested batch."""

_UNLIMITED = 1 << 42
"""Card size, in bytes, for learning laws: large enough that no rehearsal runs out of memory."""


@dataclass(frozen=True)
class Largest:
    """Largest value that fits with one way.

    Attributes:
        way: allocator that serves the requests.
        change: change of the script, or None.
        value: the largest that fits; 0 if not even 1 does.
        proved: whether a rehearsal on the card itself ran with it and memory did not run out.
        need: need at that value; None if the value is 0.
    """

    way: Way
    change: str | None
    value: int
    proved: bool
    need: Need | None


@dataclass(frozen=True, eq=False)
class Search:
    """Result of a search.

    Attributes:
        found: results by way; the first requested way is proved first.
        law: the fitted laws.
        evidence: evidence of all rehearsals.
    """

    found: tuple[Largest, ...]
    law: Law
    evidence: tuple[Evidence, ...]

    def of(self, way: Way) -> Largest:
        """Return the result for a way."""
        return next(one for one in self.found if one.way == way)


def accumulate(effective: int, most: int) -> tuple[int, int]:
    """Split a batch into as few equal micro-batches that fit as possible.

    Args:
        effective: samples of one optimizer step.
        most: the largest micro-batch that fits.

    Returns:
        Micro-batch and steps; their product is the effective batch.

    Raises:
        OptionError: if nothing fits, or the batch is below 1.

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
    """Return the default values at which the laws of a job are learned."""
    batch = re.search(r"batch|\bbs\b|^-b$", job.option, re.IGNORECASE)
    return _VALUES if batch else _OTHER_VALUES


def learn(job: Job, card: Card, values: Sequence[int], change: str | None = None) -> list[Evidence]:
    """Rehearse a job at small values, on a card of the same kind with unlimited memory.

    The rehearsals run without pgmo: its recording requests a little more, which follows no law.
    """
    return [collect(job, unlimited(card), value=value, change=change) for value in values]


def unlimited(card: Card) -> Card:
    """Return a card of the same kind on which nothing runs out of memory."""
    return replace(card, memory=_UNLIMITED, usable=_UNLIMITED)


def largest_value(law: Law, usable: int, way: Way, *, live: bool = False) -> int:
    """Return the largest value that the laws predict to fit; 0 if not even 1 does.

    Args:
        law: law of the job.
        usable: bytes of the card.
        way: allocator that serves the requests.
        live: whether only the live bytes have to fit, which gives an upper bound for all
            allocators.
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
    most: int = MOST,
    limit: int = LIMIT,
) -> Search:
    """Find the largest value of the varying option that fits on a card, for each way.

    Args:
        job: a job with an option that varies.
        card: the card.
        ways: ways to search, in the order in which they are proved.
        values: values at which the laws are learned, at least two; () for `values_of` the job.
        prove: whether to rehearse the answers on the card itself.
        most: maximum number of rehearsals.
        limit: largest value to consider; no larger one is rehearsed.
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
        one, law = _proved(job, card, way, law, evidence, most if prove else 0, limit)
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
    """Search the largest value of one way, rehearse it on the card, and return it with the laws.

    Each of at most `most` rehearsals corrects the laws. Values that ran out of memory are upper
    bounds, and values that ran are lower bounds, whatever the laws predict.
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
            # On a full card pgmo takes fewer pages, so bytes measured elsewhere exceed its need.
            value = min(largest_value(law, card.usable, way, live=True), high - 1)
            if value == low and law.uncertainty > _EXACT:
                value = min(low + 1, high - 1)  # the laws may be conservative: try one more
        elif value == low:
            # The model of PyTorch's allocator may be conservative on a full card: try a middle.
            bound = min(largest_value(law, card.usable, way, live=True), high - 1)
            value = (low + bound + 1) // 2
    value = low or value
    need = law.need(value) if value else None
    return Largest(way, None, value, value == low and value > 0, need), law


def fits_to_its_end(evidence: Evidence, card: Card) -> bool:
    """Return whether a job that was rehearsed on a card also runs to its last step there."""
    if evidence.growth is None or not evidence.rehearsal.fits:
        return evidence.rehearsal.fits
    need = taken(evidence) + evidence.rehearsal.context + evidence.growth.total
    return need <= card.usable


def _check_grown(job: Job, value: int, took: int, predicted: int) -> None:
    """Raise an error if the peak is below the prediction: the data set is too small."""
    if took < _MIN_GROWTH * predicted:
        raise RehearsalError(
            f"at {job.option} {value} the script takes {format_bytes(took)}, but its smaller "
            f"values predict {format_bytes(predicted)}: probably it has too few samples for "
            "such a batch. Give it more samples, which may be made up, or ask about one value "
            "with --value"
        )


def _law(evidence: Sequence[Evidence]) -> Law:
    """Fit laws to all evidence, or to the larger values alone if the smallest differs."""
    whole = [one for one in evidence if one.whole]
    for first in range(max(1, len(whole) - 1)):
        try:
            return Law(whole[first:])
        except ProfileError as error:
            failure = error
    raise RehearsalError(
        "the script makes different requests at each value, so no larger value can be "
        f"predicted: {failure}. Ask about one value with --value"
    )
