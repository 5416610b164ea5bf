"""The same job on every card: does it fit, on how many, with which batch, how fast."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgmo.cards import Card, all_cards
from pgmo.fit.largest import largest_value
from pgmo.fit.law import Law
from pgmo.fit.what_if.arithmetic import Model, curves_of, peak, sharded
from pgmo.fit.what_if.timing import Forecast, TimedStep, forecast, scaled
from pgmo.rehearsal.environment import context_bytes

RANKS = (2, 4, 8)
"""Cards over which a job that does not fit on one is sharded."""


@dataclass(frozen=True)
class CardRow:
    """A job on a card.

    Attributes:
        card: the card.
        total: bytes that it takes with pgmo, context included.
        fits: whether it fits, by "default" and "pgmo".
        ranks: cards that it needs, 1 where one is enough; None where 8 are too few. Of several
            each has a part of parameters, gradients and states; computed, not rehearsed.
        largest: the largest value of what varies with pgmo; None where nothing varies.
        forecast: time there, at the largest value if there is one; None where nothing can be said.
    """

    card: Card
    total: int
    fits: dict[str, bool]
    ranks: int | None
    largest: int | None
    forecast: Forecast | None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "card": self.card.name,
            "usable": self.card.usable,
            "total": self.total,
            "fits": self.fits,
            "ranks": self.ranks,
            "largest": self.largest,
            "forecast": vars(self.forecast) if self.forecast else None,
        }


def on_cards(
    law: Law,
    value: int | None,
    *,
    cards: Sequence[Card] | None = None,
    samples: float | None = None,
    steps: float | None = None,
    measured: TimedStep | None = None,
) -> list[CardRow]:
    """A row for each card, in the order of the list.

    What a kernel asks for may differ between cards; here it is what it asked for on the card of
    the rehearsal, but for the context.

    Args:
        law: of the job.
        value: of what varies.
        cards: those to look at; all that are known for None.
        samples: of the whole job; divided by the batch for the number of steps.
        steps: of the whole job, if samples are not given.
        measured: a step that was timed, at `value`.
    """
    load = law.at(value)
    model = Model.of(law.last.known)
    rows = []
    for card in all_cards() if cards is None else cards:
        # The laws' context is that of their own card.
        usable = card.usable - context_bytes(card) + law.context
        total = law.with_pgmo(load.peak) + context_bytes(card)
        fits = {"default": law.fits(value, usable, "default"), "pgmo": total <= card.usable}
        varies = value is not None and len(law.evidence) > 1
        most = largest_value(law, usable, "pgmo") if varies else None
        at = most or value
        work = work_at(law, at)
        number = samples / at if samples is not None and at else steps
        reference = work_at(law, value)
        rows.append(
            CardRow(
                card,
                total,
                fits,
                1 if fits["pgmo"] else _ranks(law, curves_of(load), model, card),
                most,
                forecast(work, card, steps=number, measured=measured, reference=reference),
            )
        )
    return rows


def work_at(law: Law, value: int | None) -> list[list[Any]]:
    """The work of a step: that of the nearest rehearsal, in proportion to the batch."""
    known = [one for one in law.whole if one.known.get("work")]
    if not known:
        return []
    nearest = min(known, key=lambda one: abs((one.value or 0) - (value or 0)))
    work: list[list[Any]] = nearest.known["work"]
    if value is None or nearest.value is None or nearest.value == value:
        return work
    return scaled(work, nearest.value, value)


def _ranks(law: Law, curves: Any, model: Model, card: Card) -> int | None:
    for ranks in RANKS:
        size = law.with_pgmo(peak(sharded(curves, model, ranks))) + context_bytes(card)
        if size <= card.usable:
            return ranks
    return None
