"""Results on other cards: whether a job fits, the number of cards, its largest batch, its time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pgmo.cards import Card, all_cards
from pgmo.fit.largest import largest_value
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if.arithmetic import RANKS, Model, sharded
from pgmo.fit.what_if.timing import Forecast, TimedStep, forecast, scaled
from pgmo.fit.what_if.whole_run import WholeRun
from pgmo.rehearsal.environment import context_bytes


@dataclass(frozen=True)
class CardRow:
    """Result for a job on one card.

    Attributes:
        card: the card.
        total: bytes that the job takes with pgmo, context included.
        fits: whether the job fits, by "default" and "pgmo".
        ranks: computed number of cards that the job needs if the cards share parameters, gradients
            and states; None if 8 are too few.
        largest: largest value that fits with pgmo, or 0; None if only one value was rehearsed.
        forecast: time on the card, at the largest value if there is one; None if unknown.
    """

    card: Card
    total: int
    fits: dict[str, bool]
    ranks: int | None
    largest: int | None
    forecast: Forecast | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self) | {
            "card": self.card.name,
            "usable": self.card.usable,
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
    """Return a row for each of `cards`, in the same order; None stands for all known cards.

    The job is assumed to make the same requests on each card; the size of the context differs.
    """
    run = WholeRun.of(law, value)
    model = Model.of(law.last.known)
    rows = []
    for card in all_cards() if cards is None else cards:
        # The laws subtract the context of the rehearsed card.
        usable = card.usable - context_bytes(card) + law.context
        total = law.with_pgmo(run.peak) + context_bytes(card)
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
                1 if fits["pgmo"] else _ranks(law, run, model, card),
                most,
                forecast(work, card, steps=number, measured=measured, reference=reference),
            )
        )
    return rows


def work_at(law: Law, value: int | None) -> list[list[Any]]:
    """Return a step's operators for `forecast`, scaled from the nearest rehearsed value, or []."""
    known = [one for one in law.whole if one.known.get("work")]
    if not known:
        return []
    nearest = min(known, key=lambda one: abs((one.value or 0) - (value or 0)))
    work: list[list[Any]] = nearest.known["work"]
    if value is None or nearest.value is None or nearest.value == value:
        return work
    return scaled(work, nearest.value, value)


def _ranks(law: Law, run: WholeRun, model: Model, card: Card) -> int | None:
    for ranks in RANKS:
        shard = run.changed(partial(sharded, ranks=ranks), model)
        if law.with_pgmo(shard.peak) + context_bytes(card) <= card.usable:
            return ranks
    return None
