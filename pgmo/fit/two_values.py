"""Largest batch for each length: two options that vary at once.

rehearsed    batch 2 and 4, each at lengths 64, 128, 256
laws         of the length, at batch 2 and at batch 4  -->  of the batch, at any length
proved       the shortest, the middle and the longest length that fit, on the card
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgmo.cards import Card
from pgmo.errors import OptionError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.largest import fits_to_its_end, largest_value, unlimited
from pgmo.fit.laws.law import Law

BATCHES, LENGTHS = (2, 4), (64, 128, 256)
"""Values that are rehearsed by default. Three lengths, because memory may grow quadratically."""

_MOST_ROWS = 8
"""Maximum number of rows of a table. Each length is twice the one before."""

_PLACE = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class BatchOfLength:
    """Row of the table: a length, and the largest batch that fits; 0 if none does."""

    length: int
    batch: int
    proved: bool


@dataclass(frozen=True, eq=False)
class BatchTable:
    """Largest batch for each length, ascending; durations are in seconds."""

    options: tuple[str, str]
    rows: tuple[BatchOfLength, ...]
    rehearsals: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "options": list(self.options),
            "rows": [vars(one) for one in self.rows],
            "rehearsals": self.rehearsals,
            "seconds": round(self.seconds, 1),
        }


def has_two_values(vary: str | None) -> bool:
    """Return whether `--vary` names two options."""
    return vary is not None and len(_PLACE.findall(vary)) == 2


def options_of(vary: str) -> tuple[str, str]:
    """Return the two options, each with "{}" for its value."""
    first = _PLACE.search(vary)
    assert first is not None
    head, tail = vary[: first.end()], vary[first.end() :]
    one, two = (_PLACE.sub("{}", part).strip() for part in (head, tail))
    if not two.endswith("{}") or two == "{}":
        raise OptionError(f"--vary {vary!r} must name two options, as '-b {{b}} -l {{l}}' does")
    return one, two


def batch_table(
    job: Job,
    vary: str,
    card: Card,
    *,
    batches: Sequence[int] = BATCHES,
    lengths: Sequence[int] = LENGTHS,
    notify: Callable[[str], None] = lambda _: None,
) -> BatchTable:
    """Find the largest batch for each length.

    Args:
        job: a script with both options; its own `vary` is replaced.
        vary: the options, such as "--batch-size {b} --length {l}".
        card: the card.
        batches: two values of the first option at which laws are learned.
        lengths: values of the second option at which laws are learned, at least two.
        notify: called with a status message.

    Raises:
        RehearsalError: if the script cannot be rehearsed.
        ProfileError: if the script makes other requests at other values, so that no law holds.
    """
    first, second = options_of(vary)
    made: list[Evidence] = []

    def rehearsed(batch: int, length: int, where: Card, **options: Any) -> Evidence:
        notify(f"rehearsing {first.format(batch)} {second.format(length)}")
        words = (*job.command, *second.format(length).split())
        made.append(collect(replace(job, command=words, vary=first), where, value=batch, **options))
        return made[-1]

    of_batch: dict[int, tuple[Law, Evidence]] = {}
    for batch in sorted(batches):
        found = [rehearsed(batch, one, unlimited(card)) for one in sorted(lengths)]
        of_length = [replace(one, value=at) for one, at in zip(found, sorted(lengths), strict=True)]
        of_batch[batch] = Law(of_length), found[-1]
    rows: list[BatchOfLength] = []
    length = min(lengths)
    while len(rows) < _MOST_ROWS:
        batch = largest_value(_law_at(of_batch, length), card.usable, "pgmo")
        rows.append(BatchOfLength(length, batch, False))
        if not batch:
            break
        length *= 2
    fitting = [at for at, one in enumerate(rows) if one.batch]
    for at in sorted({fitting[0], fitting[len(fitting) // 2], fitting[-1]} if fitting else ()):
        rows[at] = _proved(rows[at], card, rehearsed)
    return BatchTable(
        tuple(_PLACE.sub("", one).replace("{}", "").strip(" =") for one in (first, second)),  # type: ignore[arg-type]
        tuple(rows),
        len(made),
        sum(one.rehearsal.seconds for one in made),
    )


def _law_at(of_batch: dict[int, tuple[Law, Evidence]], length: int) -> Law:
    """Return the law of the batch at a length, from the laws of the length at two batches."""
    scaled = []
    for batch, (law, last) in of_batch.items():
        load = law.at(length)
        scaled.append(
            replace(
                last,
                value=batch,
                profile=load.profile,
                category=load.category,
                convolution=load.convolution,
                begins=load.begins,
                known={name: one for name, one in last.known.items() if name != "later_peak"},
            )
        )
    return Law(scaled)


def _proved(row: BatchOfLength, card: Card, rehearsed: Callable[..., Evidence]) -> BatchOfLength:
    """Rehearse a row on the card; if memory runs out, rehearse once more at a smaller batch."""
    for batch in (row.batch, row.batch - max(1, row.batch // 50)):
        if batch < 1:
            break
        one = rehearsed(batch, row.length, card, way="pgmo", work=False)
        if fits_to_its_end(one, card):
            return BatchOfLength(row.length, batch, True)
    return replace(row, batch=max(0, row.batch - max(1, row.batch // 50)))
