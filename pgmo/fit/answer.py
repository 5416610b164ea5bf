"""Result of `pgmo fit`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgmo.cards import Card
from pgmo.errors import OptionError
from pgmo.fit.largest import Largest, accumulate
from pgmo.fit.laws.growth import GrowingJob
from pgmo.fit.laws.need import Need
from pgmo.fit.what_if.alternatives import Alternative, least_change
from pgmo.fit.what_if.on_cards import CardRow
from pgmo.fit.what_if.timing import Forecast
from pgmo.rehearsal.environment import Way
from pgmo.report.findings.attribution import Holder
from pgmo.units import format_bytes

NAMES: Mapping[Way, str] = {
    "default": "PyTorch as it is",
    "expandable": "expandable segments",
    "pgmo": "pgmo",
}
"""Display names of the allocators."""

_MUCH_PINNED = 256 << 20
"""Minimum bytes of pinned host memory that `Answer.sentence` mentions. Loaders pin a few batches;
offloading pins gigabytes."""

_MOST_MISSED = 3
"""Number of unrehearsed pieces of code that `Answer.sentence` names. Other pieces are counted."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of `pgmo.fit`: whether a job fits on a card, and other results on request.

    Attributes:
        name: display name of the job.
        card: the card.
        option: name of the option that varies.
        value: value of the option at which `need` holds; None if nothing varies.
        need: bytes that the job needs of the card. After a search: at the largest value that fits
            with the first searched allocator, or at 1 if none fits.
        fits: whether the job runs on the card to its end, by allocator.
        proved: allocators whose result comes from a rehearsal on this card, not from a prediction.
        holders: what holds memory at an iteration's peak, by "module", "op" and "phase", largest
            first.
        largest: largest value that fits, for each searched allocator and each change of the
            script; () without a search.
        effective: requested batch of one optimizer step, or None.
        alternatives: other ways to train the same model; the unchanged script is first.
        cards: results for the other cards of the question.
        forecast: predicted time on this card; None if it is unknown.
        missed: evaluations, checkpoints and replacements of parameters that no rehearsal ran; their
            memory is unknown. See `pgmo.fit.observer.sites`.
        growing: growth of live memory from step to step; None if it is too small to matter.
        pinned: peak bytes of the host that PyTorch pins at `value`; 0 if unknown.
        rehearsals: number of rehearsals.
        seconds: total duration of the rehearsals in seconds.
    """

    name: str
    card: Card
    option: str
    value: int | None
    need: Need
    fits: Mapping[Way, bool]
    proved: tuple[Way, ...] = ()
    holders: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    largest: tuple[Largest, ...] = ()
    effective: int | None = None
    alternatives: tuple[Alternative, ...] = ()
    cards: tuple[CardRow, ...] = ()
    forecast: Forecast | None = None
    missed: tuple[str, ...] = ()
    growing: GrowingJob | None = None
    pinned: int = 0
    rehearsals: int = 0
    seconds: float = 0.0

    @property
    def is_fit(self) -> bool:
        """Return whether the job fits on the card with pgmo."""
        return self.fits["pgmo"]

    @property
    def spare(self) -> int:
        """Usable bytes of the card minus the bytes that the job needs with pgmo.

        A job may fit although the result is negative: on a full card, PyTorch frees cached memory
        and chooses algorithms with smaller workspaces.
        """
        return self.card.usable - self.need.total("pgmo")

    @property
    def batch(self) -> int:
        """Largest value that fits with the first searched allocator, by default pgmo; 0 for none.

        Raises:
            OptionError: if no largest value was searched.
        """
        for one in self.largest:
            if one.change is None:
                return one.value
        raise OptionError(
            "no batch was searched: leave batch= out, and give vary='--batch-size {}' (for a "
            "function: an argument for the batch)"
        )

    @property
    def accumulation(self) -> tuple[int, int] | None:
        """Size and number of micro-batches; None without `effective`, or if no batch fits."""
        if self.effective is None or not self.batch:
            return None
        return accumulate(self.effective, self.batch)

    @property
    def least_change(self) -> Alternative | None:
        """The fitting alternative that is nearest to the unchanged script; None if none fits."""
        return least_change(self.alternatives)

    @property
    def sentence(self) -> str:
        """The answer, followed by sentences on growth, code that did not run, and host memory."""
        return f"{self._first_sentence()}{self._growth()}{self._not_run()}{self._host()}"

    def _first_sentence(self) -> str:
        if self.largest:
            return self._largest_sentence()
        begins = self.need.total("pgmo") - self.need.growth <= self.card.usable
        if self.growing is not None and not self.growing.fits and begins:
            return (
                f"{self.name} fits on {self.card.name} only until about step "
                f"{self.growing.last_step:,} with pgmo."
            )
        card, total = self.card.name, format_bytes(self.need.total("pgmo"))
        usable = format_bytes(self.card.usable)
        if self.is_fit and self.spare < 0:
            return (
                f"{self.name} fits on {card}: with pgmo it would take {total} on a larger card, "
                f"but on this card it stays within {usable}."
            )
        if self.is_fit:
            without = "" if self.fits["default"] else "; without pgmo it runs out of memory"
            return (
                f"{self.name} fits on {card}: it takes {total} of {usable} with pgmo, "
                f"{format_bytes(self.spare)} are left{without}."
            )
        least = self.least_change
        change = "" if least is None or not least.rank else f"; with {least.name} it fits"
        if self.spare >= 0:
            return (
                f"{self.name} does not fit on {card}: memory ran out in the rehearsal, although it "
                f"takes {total} of {usable} with pgmo on a larger card{change}."
            )
        return (
            f"{self.name} does not fit on {card}: it takes {total} with pgmo, "
            f"{format_bytes(-self.spare)} more than the card's {usable}{change}."
        )

    def _growth(self) -> str:
        """Return the growth of live memory as a sentence; "" if there is none."""
        if self.growing is None:
            return ""
        words = self.growing.words
        begin = f" {words[0].upper()}{words[1:]}"
        if not self.growing.growth.is_bounded:
            return (
                f"{begin}, and the number of steps is unknown: give it with --steps, or with "
                "samples= in Python, so that the last step can be predicted."
            )
        if self.growing.fits or self.largest:
            return f"{begin}, which is included for {self.growing.steps}."
        return f"{begin}, and the script makes {self.growing.steps}."

    def _not_run(self) -> str:
        """Return a sentence on code that never ran; "" if all ran or the first steps do not fit."""
        if not self.missed or not (self.is_fit or self.largest or self.growing):
            return ""
        more = len(self.missed) - _MOST_MISSED
        named = ", ".join(self.missed[:_MOST_MISSED]) + (f" and {more} more" if more > 0 else "")
        return f" Not covered: {named}, which did not run in the rehearsed iterations."

    def _host(self) -> str:
        """Return sentences on much pinned memory and on an integrated card; "" for neither."""
        pins = ""
        if self.pinned >= _MUCH_PINNED:
            pins = f" The job pins {format_bytes(self.pinned)} of host memory."
        if not self.card.integrated:
            return pins
        return (
            f"{pins}"
            f" {self.card.name} shares its memory with the host: memory of the system, of the page "
            "cache and of the process itself is not subtracted."
        )

    def _largest_sentence(self) -> str:
        parts = []
        for one in self.largest:
            unproved = " (predicted, not run)" if one.value else " (1 does not fit)"
            how = "" if one.proved else unproved
            named = NAMES[one.way] if one.change is None else f"{one.change}"
            parts.append(f"{one.value} with {named}{how}")
        found = "; ".join(parts)
        first = f"The largest {self.option} of {self.name} on {self.card.name} is {found}."
        if self.accumulation is None:
            return first
        micro, steps = self.accumulation
        return (
            f"{first} For {self.effective} samples per step, use {steps} micro-batches of {micro}."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain values for JSON."""
        return {
            "answer": self.sentence,
            "job": self.name,
            "option": self.option,
            "card": {"name": self.card.name, "usable": self.card.usable},
            "value": self.value,
            "fits": dict(self.fits),
            "proved": list(self.proved),
            "need": self.need.as_json(),
            "holders": {by: [vars(one) for one in held] for by, held in self.holders.items()},
            "largest": [
                vars(one) | {"need": one.need.as_json() if one.need else None}
                for one in self.largest
            ],
            "accumulation": self.accumulation,
            "alternatives": [vars(one) for one in self.alternatives],
            "cards": [one.as_json() for one in self.cards],
            "forecast": vars(self.forecast) if self.forecast else None,
            "missed": list(self.missed),
            "growing": self.growing.as_json() if self.growing else None,
            "pinned": self.pinned,
            "rehearsals": self.rehearsals,
            "seconds": round(self.seconds, 1),
        }
