"""What if? Other ways to train the same, each with its bytes and where these come from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from pgmo.cards import Card
from pgmo.errors import ProfileError, RehearsalError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.largest import roomy
from pgmo.fit.law import Law, Load
from pgmo.fit.what_if.arithmetic import COMPUTED, Computed, Curves, Model, curves_of, peak
from pgmo.fit.what_if.timing import bound


@dataclass(frozen=True)
class Alternative:
    """One way to train the same.

    Attributes:
        name: what it is called.
        total: bytes of the card that it needs with pgmo, context included; None where it could not
            be found out.
        fits: whether the card has them.
        source: "rehearsed", "computed", or "by the laws".
        how: what that rests on, and what is not in it; why there is no figure where there is none.
        time: what it costs in time, in words; "" where that is not known.
        rank: how far it is from the script as it is, 0 for the script itself.
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
    """A change that the observer makes in the script, so that the real allocator answers.

    Attributes:
        name: what it is called in the table.
        change: see `pgmo.fit.observer.changes`.
        how: what was done.
        rank: how far it is from the script as it is.
    """

    name: str
    change: str
    how: str
    rank: int


REHEARSED = (
    Rehearsed("autocast to bfloat16", "autocast:bfloat16", "the model is called under autocast", 1),
    Rehearsed("pgmo.recompute, 70 %", "recompute:0.7", "the model recomputes by plan", 2),
    Rehearsed("pgmo.recompute, 50 %", "recompute:0.5", "the model recomputes by plan", 2),
    Rehearsed("pgmo.recompute, least", "recompute:min", "the model recomputes by plan", 2),
    Rehearsed("checkpointing of each block", "checkpoint", "torch.utils.checkpoint around each", 2),
)
"""What is rehearsed, in the order of the table."""

_BFLOAT16 = "autocast:bfloat16"
_ALIKE = "as in bfloat16, which has two bytes as well; a GradScaler keeps a few numbers beside"


def alternatives(
    job: Job,
    card: Card,
    law: Law,
    value: int | None,
    *,
    rehearse: Sequence[Rehearsed] = REHEARSED,
    computed: Sequence[Computed] = COMPUTED,
) -> tuple[list[Alternative], list[Evidence]]:
    """The table, the script as it is first.

    Args:
        job: what is asked about.
        card: the card that it is to fit.
        law: of the job as it is.
        value: of what varies; None where nothing does.
        rehearse: changes to rehearse, one rehearsal each.
        computed: changes to compute.

    Returns:
        The alternatives, and the rehearsals that were made for them.
    """
    model = Model.of(law.last.known)
    plain = law.at(value)
    curves = curves_of(plain)
    bases: list[tuple[str, int, Curves, str]] = [("", 0, curves, "")]
    rows = [_row("as it is, with pgmo", law, card, plain.peak, "rehearsed", "", rank=0)]
    rows += _other_values(law, card, value)
    made = []
    for one in rehearse:
        evidence, trouble = _try(job, card, value, one)
        if evidence is None:
            rows.append(Alternative(one.name, None, False, "rehearsed", trouble, rank=one.rank))
            continue
        made.append(evidence)
        changed = Law([evidence]).at(value)
        how = _what_changed(one, evidence, plain, changed)
        time = _time(law.last, evidence, card)
        rows.append(
            _row(one.name, law, card, changed.peak, "rehearsed", how, time=time, rank=one.rank)
        )
        bases.append((one.name, one.rank, curves_of(changed), how))
        if one.change == _BFLOAT16:
            alike = replace(rows[-1], name="autocast to float16", source="computed", how=_ALIKE)
            rows.append(alike)
    for change in computed:
        size, how = peak(change.apply(curves, model)), change.says(model)
        rows.append(_row(change.name, law, card, size, "computed", how, change.time, change.rank))
    if not any(one.fits for one in rows if one.rank):
        rows += _pairs(law, card, model, bases, computed)
    return rows, made


def least_change(rows: Iterable[Alternative]) -> Alternative | None:
    """The row that fits and is nearest to the script as it is; None where none fits.

    Example:
        >>> rows = [Alternative("a", 9, True, "", "", rank=4), Alternative("b", 8, True, "", "")]
        >>> least_change(rows).name
        'b'
    """
    fitting = [one for one in rows if one.fits]
    return min(fitting, key=lambda one: one.rank, default=None)


def _row(
    name: str,
    law: Law,
    card: Card,
    size: int,
    source: str,
    how: str,
    time: str = "",
    rank: int = 1,
) -> Alternative:
    total = law.with_pgmo(size) + law.context
    return Alternative(name, total, total <= card.usable, source, how, time, rank)


def _other_values(law: Law, card: Card, value: int | None) -> list[Alternative]:
    """Half and twice of what varies, where there are laws."""
    if value is None or len(law.evidence) < 2:
        return []
    rows = []
    for other in (value // 2, value * 2):
        if other < 1:
            continue
        try:
            size = law.at(other).peak
        except ProfileError:
            continue
        how = f"{law.describes}"
        rank = 1 if other < value else 9
        rows.append(
            _row(f"{other} instead of {value}", law, card, size, "by the laws", how, rank=rank)
        )
    return rows


def _try(job: Job, card: Card, value: int | None, one: Rehearsed) -> tuple[Evidence | None, str]:
    """The rehearsal of a change, or why there is none."""
    try:
        evidence = collect(job, roomy(card), value=value, change=one.change)
    except RehearsalError as error:
        return None, f"the script does not allow it: {error}"
    if not evidence.whole:
        return None, "the changed script did not get through three iterations"
    return evidence, ""


def _what_changed(one: Rehearsed, evidence: Evidence, plain: Load, changed: Load) -> str:
    """How it was done; said where nothing came of it, as in a script that does it already."""
    if changed.peak == plain.peak:
        return f"{one.how}; nothing changed: the script may do it already"
    return one.how


def _time(plain: Evidence, changed: Evidence, card: Card) -> str:
    """The ratio of the two bounds on the time of a step, where the card has rates."""
    before, after = (bound(one.known.get("work", []), card) for one in (plain, changed))
    if not before or not after or plain.value != changed.value:
        return ""
    return f"{after / before - 1:+.0%} by the card's peak rates"


def _pairs(
    law: Law,
    card: Card,
    model: Model,
    bases: Sequence[tuple[str, int, Curves, str]],
    computed: Sequence[Computed],
) -> list[Alternative]:
    """What was rehearsed together with what is computed: the least of them that fits."""
    rows = []
    for (name, rank, curves, how), change in product(bases, computed):
        if not name:
            continue
        rows.append(
            _row(
                f"{name}, and {change.name}",
                law,
                card,
                peak(change.apply(curves, model)),
                "computed",
                f"from the rehearsal of the first: {how}; {change.says(model)}",
                change.time,
                rank + change.rank,
            )
        )
    found = least_change(rows)
    return [found] if found is not None else []
