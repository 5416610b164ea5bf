"""Other ways to train the same model, with their bytes and the source of each figure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from pgmo.cards import Card
from pgmo.errors import ProfileError, RehearsalError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.largest import unlimited
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if.arithmetic import COMPUTED, Model
from pgmo.fit.what_if.timing import bound
from pgmo.fit.what_if.whole_run import WholeRun


@dataclass(frozen=True)
class Alternative:
    """Another way to train the same model.

    Attributes:
        name: display name.
        total: bytes of the card that the job needs with pgmo, context included; None if unknown.
        fits: whether `total` fits on the card.
        source: "rehearsed", "computed", or "predicted".
        how: basis of `total`, and what `total` leaves out; if `total` is None, the reason.
        time: effect on the time, in words; "" if unknown.
        rank: distance from the unchanged script, which has rank 0.
    """

    name: str
    total: int | None
    fits: bool
    source: str
    how: str
    time: str = ""
    rank: int = 1


@dataclass(frozen=True)
class Rehearsed:
    """Change that the observer makes in a script, and that a rehearsal measures."""

    name: str
    change: str
    how: str
    rank: int


REHEARSED = (
    Rehearsed("autocast to bfloat16", "autocast:bfloat16", "the model is called under autocast", 1),
    Rehearsed("pgmo.recompute, 70 %", "recompute:0.7", "the model runs in pgmo.recompute", 2),
    Rehearsed("pgmo.recompute, 50 %", "recompute:0.5", "the model runs in pgmo.recompute", 2),
    Rehearsed("pgmo.recompute, least", "recompute:min", "the model runs in pgmo.recompute", 2),
    Rehearsed("checkpointing of each block", "checkpoint", "torch.utils.checkpoint", 2),
)
"""The rehearsed changes, in the order of the table."""

_BFLOAT16 = "autocast:bfloat16"
_ALIKE = "as with bfloat16, which also takes two bytes a number; a GradScaler adds a few numbers"


def alternatives(
    job: Job, card: Card, law: Law, value: int | None
) -> tuple[list[Alternative], list[Evidence]]:
    """Return the alternatives, the unchanged script first, and the evidence of their rehearsals."""
    model = Model.of(law.last.known)
    plain = WholeRun.of(law, value)
    bases: list[tuple[str, int, WholeRun, str]] = []
    row = partial(_row, law, card)
    source = "rehearsed" if any(one.value == value for one in law.evidence) else "predicted"
    rows = [row("unchanged, with pgmo", plain.peak, source, "", rank=0)]
    rows += _other_values(law, value, row)
    made = []
    for one in REHEARSED:
        evidence, trouble = _try(job, card, value, one)
        if evidence is None:
            rows.append(Alternative(one.name, None, False, "rehearsed", trouble, rank=one.rank))
            continue
        made.append(evidence)
        changed = WholeRun.of(Law([evidence]), value)
        how = one.how
        if changed.step_peak == plain.step_peak:
            how += "; the peak stayed the same: the script may have this change already"
        time = _time(law.last, evidence, card)
        rows.append(row(one.name, changed.peak, "rehearsed", how, time, one.rank))
        bases.append((one.name, one.rank, changed, how))
        if one.change == _BFLOAT16:
            alike = replace(rows[-1], name="autocast to float16", source="computed", how=_ALIKE)
            rows.append(alike)
    for change in COMPUTED:
        size, how = plain.changed(change.apply, model).peak, change.explain(model)
        rows.append(row(change.name, size, "computed", how, change.time, change.rank))
    if not any(one.fits for one in rows if one.rank):
        rows += _pairs(model, bases, row)
    return rows, made


def least_change(rows: Iterable[Alternative]) -> Alternative | None:
    """Return the fitting row that is nearest to the unchanged script; None if none fits."""
    fitting = [one for one in rows if one.fits]
    return min(fitting, key=lambda one: one.rank, default=None)


def _row(
    law: Law,
    card: Card,
    name: str,
    size: int,
    source: str,
    how: str,
    time: str = "",
    rank: int = 1,
) -> Alternative:
    """Return the row of a change whose run has a peak of `size` live bytes."""
    total = law.with_pgmo(size) + law.context
    return Alternative(name, total, total <= card.usable, source, how, time, rank)


def _other_values(
    law: Law, value: int | None, row: Callable[..., Alternative]
) -> list[Alternative]:
    """Return rows for half and twice the value; [] without laws."""
    if value is None or len(law.evidence) < 2:
        return []
    rows = []
    for other in (value // 2, value * 2):
        if other < 1:
            continue
        try:
            size = WholeRun.of(law, other).peak
        except ProfileError:
            continue
        rank = 1 if other < value else 9
        name = f"{other} instead of {value}"
        rows.append(row(name, size, "predicted", law.description, rank=rank))
    return rows


def _try(job: Job, card: Card, value: int | None, one: Rehearsed) -> tuple[Evidence | None, str]:
    """Rehearse a change; return its evidence, or None and the reason."""
    try:
        evidence = collect(job, unlimited(card), value=value, change=one.change)
    except RehearsalError as error:
        return None, f"the rehearsal of the changed script failed: {error}"
    if not evidence.whole:
        return None, "the changed script did not complete three iterations"
    return evidence, ""


def _time(plain: Evidence, changed: Evidence, card: Card) -> str:
    """Return the change of a step's least time in words, as "+20% by ..."; "" if unknown."""
    before, after = (bound(one.known.get("work", []), card) for one in (plain, changed))
    if not before or not after or plain.value != changed.value:
        return ""
    return f"{after / before - 1:+.0%} by the card's peak rates"


def _pairs(
    model: Model,
    bases: Sequence[tuple[str, int, WholeRun, str]],
    row: Callable[..., Alternative],
) -> list[Alternative]:
    """Return the nearest fitting pair of a rehearsed and a computed change; [] if there is none."""
    rows = []
    for (name, rank, run, how), change in product(bases, COMPUTED):
        rows.append(
            row(
                f"{name}, and {change.name}",
                run.changed(change.apply, model).peak,
                "computed",
                f"from the rehearsal of the first change: {how}; {change.explain(model)}",
                change.time,
                rank + change.rank,
            )
        )
    found = least_change(rows)
    return [found] if found is not None else []
