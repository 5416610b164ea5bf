"""Largest batch for each length: two options that vary at once.

rehearsed    batches 2 and 4, each at lengths 64, 128, 256
laws         by length, at batch 2 and at batch 4  -->  by batch, at any length
proved       at the card's size: the shortest, the middle and the longest length that fit

A script without optimizer steps, such as inference, runs to its end in each rehearsal. The table
comes from the peaks of these runs.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

import numpy as np

from pgmo.cards import Card
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.largest import LIMIT, fits_to_its_end, largest_value, unlimited
from pgmo.fit.laws.law import Law
from pgmo.rehearsal import Rehearsal

BATCHES, LENGTHS = (2, 4), (64, 128, 256)
"""Batches that are rehearsed, and default lengths. Three lengths determine a quadratic law."""

_REQUESTS = (16, 64)
"""Values of the first option that are rehearsed for inference. With fewer requests, caches would
be small compared with a page, the unit in which memory is counted."""

_PROOFS = 2
"""Maximum number of rehearsals for a row of a table for training."""

_TRIALS = 5
"""Maximum number of rehearsals for a row of a table for inference."""

_MOST_ROWS = 8
"""Maximum number of rows of a table. Each row has twice the length of the row before."""

_APART = 0.9
"""Maximum ratio of the smaller to the larger batch of a line through two peaks."""

_PLACE = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class BatchOfLength:
    """Row of a table: a length, and the largest batch that fits, or 0.

    `proved` is whether a rehearsal with this batch fitted at the card's size.
    """

    length: int
    batch: int
    proved: bool


@dataclass(frozen=True, eq=False)
class BatchTable:
    """Largest batch for each length, ascending. `seconds` is the duration of all rehearsals."""

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
    """Return whether the text of `--vary` names two options."""
    return vary is not None and len(_PLACE.findall(vary)) == 2


def options_of(vary: str) -> tuple[str, str]:
    """Return the two options, each with "{}" for its value, or raise `OptionError`."""
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
    lengths: Sequence[int] = LENGTHS,
    notify: Callable[[str], None] = lambda _: None,
) -> BatchTable:
    """Find the largest batch for the shortest of `lengths`, and for repeatedly doubled lengths.

    All `lengths`, at least two, are rehearsed. A script without optimizer steps must end by itself.
    `vary` replaces `job.vary`. `notify` is called with status messages.

    Raises:
        OptionError: if `vary` does not name two options, or a script that trains gets one length.
        RehearsalError: if the script cannot be rehearsed, or its peak does not grow with the batch.
        ProfileError: if the requests at different values do not correspond.
        AdapterError: if there is no compiler for the stub.
    """
    first, second = options_of(vary)
    made: list[Evidence] = []

    def rehearsed(batch: int, length: int, where: Card, **options: Any) -> Evidence:
        notify(f"rehearsing {first.format(batch)} {second.format(length)}")
        words = (*job.command, *second.format(length).split())
        made.append(collect(replace(job, command=words, vary=first), where, value=batch, **options))
        return made[-1]

    lengths = sorted(lengths)
    begin = rehearsed(BATCHES[0], lengths[0], unlimited(card), trains=False)
    table: _TrainingTable | _InferenceTable
    if begin.trains:
        table = _TrainingTable(card, rehearsed, lengths, begin)
    else:
        notify("no optimizer step was made, so the script runs to its end each time")
        table = _InferenceTable(card, rehearsed, lengths)
    rows: list[BatchOfLength] = []
    length = lengths[0]
    while len(rows) < _MOST_ROWS:
        rows.append(BatchOfLength(length, table.largest(length), False))
        if not rows[-1].batch:
            break
        length *= 2
    fitting = [at for at, one in enumerate(rows) if one.batch]
    for at in sorted({fitting[0], fitting[len(fitting) // 2], fitting[-1]} if fitting else ()):
        rows[at] = table.proved(rows[at])
    return BatchTable(
        tuple(_PLACE.sub("", one).replace("{}", "").strip(" =") for one in (first, second)),  # type: ignore[arg-type]
        tuple(rows),
        len(made),
        sum(one.rehearsal.seconds for one in made),
    )


class _TrainingTable:
    """Predictions for a script that trains, from laws of its requests."""

    def __init__(
        self,
        card: Card,
        rehearsed: Callable[..., Evidence],
        lengths: Sequence[int],
        begin: Evidence,
    ) -> None:
        self._card, self._rehearsed = card, rehearsed
        self._of_batch: dict[int, tuple[Law, Evidence]] = {}
        for batch in BATCHES:
            found = [begin] if batch == BATCHES[0] else []
            found += [rehearsed(batch, one, unlimited(card)) for one in lengths[len(found) :]]
            of_length = [replace(one, value=at) for one, at in zip(found, lengths, strict=True)]
            self._of_batch[batch] = Law(of_length), found[-1]

    def largest(self, length: int) -> int:
        """Return the largest batch that is predicted to fit at a length; 0 if none does."""
        return largest_value(_law_at(self._of_batch, length), self._card.usable, "pgmo")

    def proved(self, row: BatchOfLength) -> BatchOfLength:
        """Rehearse a row at the card's size; if it does not fit, repeat with a smaller batch.

        After two rehearsals that do not fit, the row gets a smaller batch without a rehearsal.
        """
        batch = row.batch
        for _ in range(_PROOFS):
            if batch < 1:
                break
            one = self._rehearsed(batch, row.length, self._card, way="pgmo", work=False)
            if fits_to_its_end(one, self._card):
                return BatchOfLength(row.length, batch, True)
            batch -= max(1, batch // 50)
        return replace(row, batch=batch)


class _PeakLaw:
    """Largest batch that fits at any length, from the peaks of whole runs.

    At each length, a line through the peaks of two batches gives the largest batch.

    Args:
        peaks: peak bytes of the card in whole runs, by batch and length, for two or more batches at
            the same lengths.
    """

    def __init__(self, peaks: Mapping[tuple[int, int], int]) -> None:
        self._curves = {}
        for batch in sorted({batch for batch, _ in peaks}):
            sizes = {length: size for (one, length), size in peaks.items() if one == batch}
            # A polynomial through all lengths: attention without a fused kernel is quadratic.
            self._curves[batch] = np.polynomial.Polynomial.fit(
                list(sizes), list(sizes.values()), len(sizes) - 1
            )
        self._measured: dict[int, dict[int, int]] = {}

    def add(self, batch: int, length: int, peak: int) -> None:
        """Add the peak of another whole run, which corrects predictions at its length."""
        self._measured.setdefault(length, {})[batch] = peak

    def largest(self, length: int, usable: int) -> int:
        """Return the largest batch that is predicted to fit at a length; 0 if none does.

        Raises:
            RehearsalError: if the peak does not grow with the batch.
        """
        sizes = {batch: float(curve(length)) for batch, curve in self._curves.items()}
        sizes |= self._measured.get(length, {})
        last = max(sizes)
        # A line through close batches would depend on the rounding to whole pages.
        before = max(batch for batch in sizes if batch <= _APART * last)
        slope = (sizes[last] - sizes[before]) / (last - before)
        if slope <= 0:
            raise RehearsalError(
                f"the peak of the card does not rise from {before} to {last}, so no largest value "
                "can be predicted: check that the first option sets the number of samples"
            )
        return max(0, floor(last + (usable - sizes[last]) / slope))


class _InferenceTable:
    """Predictions for a script without optimizer steps, from the peaks of whole runs."""

    def __init__(
        self, card: Card, rehearsed: Callable[..., Evidence], lengths: Sequence[int]
    ) -> None:
        self._card, self._rehearsed = card, rehearsed
        self._law = _PeakLaw(
            {
                (batch, length): self._run(batch, length, unlimited(card)).card_peak
                for batch in _REQUESTS
                for length in lengths
            }
        )

    def _run(self, batch: int, length: int, card: Card) -> Rehearsal:
        return self._rehearsed(batch, length, card, way="pgmo", trains=False).rehearsal

    def largest(self, length: int) -> int:
        """Return the largest batch that is predicted to fit at a length; 0 if none does."""
        return self._law.largest(length, self._card.usable)

    def proved(self, row: BatchOfLength) -> BatchOfLength:
        """Rehearse up to `_TRIALS` batches at the card's size, to find the largest that fits.

        If none of these batches fits, the row gets a smaller batch without a rehearsal.
        """
        low, high, batch = 0, LIMIT, row.batch
        for _ in range(_TRIALS):
            one = self._run(batch, row.length, self._card)
            if one.fits:
                low = batch
                self._law.add(batch, row.length, one.card_peak)
            else:
                high = batch
            most = high - 1 if one.fits else max(low + 1, high - max(1, high // 50))
            batch = min(max(self.largest(row.length), low + 1), most)
            if not low < batch < high:
                break
        return BatchOfLength(row.length, low or max(0, min(batch, high - 1)), low > 0)


def _law_at(of_batch: dict[int, tuple[Law, Evidence]], length: int) -> Law:
    """Return the law by batch at a length, from the laws by length at two batches."""
    scaled = []
    for batch, (law, last) in of_batch.items():
        known = {name: one for name, one in last.known.items() if name != "later_peak"}
        scaled.append(replace(last, value=batch, load=law.at(length), known=known))
    return Law(scaled)
