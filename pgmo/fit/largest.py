"""The largest batch of a card, found before anything runs on it.

rehearse 2, 4  -->  laws  -->  B  -->  rehearse B on the card  -->  it fits: proved
                      ^                        |
                      +------ with B's history, if it does not, once more
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgmo.cards import Card
from pgmo.errors import OptionError, ProfileError, RehearsalError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.law import Law
from pgmo.fit.need import Need, Way
from pgmo.units import format_bytes

VALUES = (2, 4)
"""Batches at which laws are learned. Normalisation over a batch of 1 is another program."""

OTHER_VALUES = (64, 128, 256)
"""The same of what is no batch: of lengths and widths memory has squares, which take three."""

MOST = 4
"""Rehearsals of one search, proofs included."""

LIMIT = 1 << 22
"""The largest value that is looked at."""

LOOSE = 0.001
"""Share of the bytes that laws may miss and still count as exact."""

LESS = 0.8
"""Share of the bytes that the laws foretell below which a script does not do what was asked."""

ROOM = 1 << 42
"""Bytes of the card on which laws are learned: none of its rehearsals runs out of memory."""


@dataclass(frozen=True)
class Largest:
    """The largest value that fits, by one way.

    Attributes:
        way: who serves the requests.
        change: of the script, or None.
        value: the largest that fits; 0 where not even 1 does.
        proved: whether it was rehearsed on the card itself and did not run out of memory.
        open: by way of pgmo, larger values that neither a rehearsal nor the live bytes exclude; 0
            where the value is the largest beyond doubt, as far as the laws hold.
        need: at that value; None where the value is 0.
    """

    way: Way
    change: str | None
    value: int
    proved: bool
    need: Need | None
    open: int = 0

    def accumulate(self, effective: int) -> tuple[int, int]:
        """Micro-batch and steps that make an effective batch: see `accumulate`."""
        return accumulate(effective, self.value)


@dataclass(frozen=True, eq=False)
class Search:
    """What a search has found.

    Attributes:
        found: by way; the one that was asked for first is proved first.
        law: what was learned.
        rehearsals: how many there were.
        seconds: that they took.
        evidence: all of them.
    """

    found: tuple[Largest, ...]
    law: Law
    rehearsals: int
    seconds: float
    evidence: tuple[Evidence, ...]

    def of(self, way: Way) -> Largest:
        """What was found by a way."""
        return next(one for one in self.found if one.way == way)


def accumulate(effective: int, most: int) -> tuple[int, int]:
    """Splits a batch into equal micro-batches that fit, as few as possible.

    Args:
        effective: samples of one optimizer step.
        most: the largest micro-batch that fits.

    Returns:
        Micro-batch and steps; their product is the effective batch.

    Raises:
        OptionError: when nothing fits, or the batch is below 1.

    Example:
        >>> accumulate(256, 18), accumulate(8, 18)
        ((16, 16), (8, 1))
    """
    if effective < 1 or most < 1:
        raise OptionError(
            f"a batch of {effective} cannot be accumulated from micro-batches of at most {most}"
        )
    steps = next(one for one in range(-(-effective // most), effective + 1) if not effective % one)
    return effective // steps, steps


def values_of(job: Job) -> tuple[int, ...]:
    """Where the laws of a job are learned, unless somebody says.

    Example:
        >>> values_of(Job(("train.py",), vary="--batch-size {}"))
        (2, 4)
        >>> values_of(Job(("train.py",), vary="--length {}"))
        (64, 128, 256)
    """
    batch = re.search(r"batch|\bbs\b|^-b$", job.option, re.IGNORECASE)
    return VALUES if batch else OTHER_VALUES


def learn(job: Job, card: Card, values: Sequence[int], change: str | None = None) -> list[Evidence]:
    """Rehearses a job at small values, on a card of the same kind that has room for all.

    By PyTorch as it is: under pgmo recording asks for a little more, which would be no law.
    """
    return [collect(job, roomy(card), value=value, change=change) for value in values]


def roomy(card: Card) -> Card:
    """A card of the same kind on which nothing runs out of memory."""
    return replace(card, memory=ROOM, usable=ROOM)


def largest_value(law: Law, usable: int, way: Way, *, live: bool = False) -> int:
    """The largest value that fits by the laws; 0 where not even 1 does.

    Args:
        law: of the job.
        usable: bytes of the card.
        way: who serves the requests.
        live: the largest whose live bytes fit, whoever serves them: none beyond it does.
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
    change: str | None = None,
    prove: bool = True,
    most: int = MOST,
) -> Search:
    """Finds the largest value of what varies that fits on a card.

    Args:
        job: with something that varies.
        card: the card.
        ways: whose largest values to find; they are proved in this order.
        values: where the laws are learned, two at least; () for `values_of` the job.
        change: of the script.
        prove: rehearse at the answers, on the card itself.
        most: rehearsals in all.

    Raises:
        OptionError: when nothing varies, or the values are too few.
        RehearsalError: when the script cannot be rehearsed, or is another program at every value.
    """
    if not job.varies:
        raise OptionError(
            'nothing varies: name the option that does, as in --vary "--batch-size {}"'
        )
    values = values or values_of(job)
    if len(set(values)) < 2:
        raise OptionError(f"laws over {list(values)} need two different values at least")
    evidence = learn(job, card, sorted(set(values)), change)
    law = _law(evidence)
    found = []
    for way in ways:
        one, law = _proved(job, card, way, law, evidence, change, most if prove else 0)
        found.append(one)
    return Search(
        tuple(found),
        law,
        len(evidence),
        sum(one.rehearsal.seconds for one in evidence),
        tuple(evidence),
    )


def _proved(
    job: Job,
    card: Card,
    way: Way,
    law: Law,
    evidence: list[Evidence],
    change: str | None,
    most: int,
) -> tuple[Largest, Law]:
    """The largest value by a way, rehearsed on the card as long as rehearsals are left.

    What a rehearsal shows corrects the laws. A value that has run out of memory is an upper bound,
    one that has not a lower bound, whatever the laws say.
    """
    low, high = 0, LIMIT + 1
    value = largest_value(law, card.usable, way)
    while value and value != low and len(evidence) < most:
        one = collect(job, card, value=value, way=way, change=change, work=False)
        evidence.append(one)
        if one.rehearsal.fits:
            _check_grown(job, value, one.rehearsal.allocated_peak, law.need(value).allocated_peak)
            low = value
        else:
            high = value
        law = _law(evidence)
        value = min(max(largest_value(law, card.usable, way), low), high - 1)
        if way == "pgmo" and value == low:
            # It takes fewer pages where there are few, so what it took is more than it needs.
            value = min(largest_value(law, card.usable, way, live=True), high - 1)
            if value == low and law.uncertainty > LOOSE:
                value = min(low + 1, high - 1)  # the laws may be too careful: one more is tried
    value = low or value
    beyond = min(largest_value(law, card.usable, way, live=way == "pgmo"), high - 1) - value
    need = law.need(value) if value else None
    return Largest(way, change, value, value == low and value > 0, need, max(0, beyond)), law


def _check_grown(job: Job, value: int, took: int, foretold: int) -> None:
    """A batch is no larger than the data."""
    if took < LESS * foretold:
        raise RehearsalError(
            f"at {job.option} {value} the script takes {format_bytes(took)}, where what it takes "
            f"at smaller values leads to {format_bytes(foretold)}: it does not make its batches "
            "that large, mostly because it has too few samples. Give it more of them, which may be "
            "made up, or ask about one value (--value)"
        )


def _law(evidence: Sequence[Evidence]) -> Law:
    """The laws of all evidence; of the larger values alone where the smallest differs."""
    whole = [one for one in evidence if one.whole]
    for first in range(max(1, len(whole) - 1)):
        try:
            return Law(whole[first:])
        except ProfileError as error:
            failure = error
    raise RehearsalError(
        f"the script asks for other things at other values, so no law is found: {failure}"
    )
