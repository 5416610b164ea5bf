"""Answers to questions about a job and a card, from a few rehearsals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pgmo.cards import Card
from pgmo.fit.answer import NAMES, Answer
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.largest import (
    LIMIT,
    Largest,
    largest_value,
    learn,
    search,
    unlimited,
    values_of,
)
from pgmo.fit.laws.growth import GrowingJob, is_relevant
from pgmo.fit.laws.law import PAGE, Law, taken
from pgmo.fit.laws.load import PYTORCH
from pgmo.fit.laws.need import Need
from pgmo.fit.what_if.alternatives import Alternative, alternatives
from pgmo.fit.what_if.on_cards import CardRow, on_cards, work_at
from pgmo.fit.what_if.timing import TimedStep, forecast
from pgmo.rehearsal.environment import WAYS, Way
from pgmo.rehearsal.library import find_torch_build
from pgmo.report.findings.attribution import Holder, find_peak


@dataclass(frozen=True)
class Question:
    """Question about a job: the values to examine, and the optional results.

    Attributes:
        value: value of the option; None to search for the largest that fits, or if nothing varies.
        values: values to rehearse, from which larger ones are predicted; () for 2 and 4, or for 64,
            128 and 256 if the option is not a batch.
        effective: samples of one optimizer step, to be split into micro-batches that fit.
        changes: changes of the script. Each is rehearsed at `values`; its largest value is only
            predicted.
        what_if: whether to examine other ways to train.
        cards: other cards to examine; None for none, and () for all known cards.
        steps: optimizer steps of the job.
        samples: samples of the whole job. The job takes `samples / value` steps.
        measured: a timed step at `value`.
        prove: whether to rehearse the largest values at the card's size.
        ways: allocators for which a search finds the largest value, in the order of rehearsals.
        limit: largest value that a search considers.
    """

    value: int | None = None
    values: Sequence[int] = ()
    effective: int | None = None
    changes: Sequence[str] = ()
    what_if: bool = False
    cards: tuple[Card, ...] | None = None
    steps: float | None = None
    samples: float | None = None
    measured: TimedStep | None = None
    prove: bool = True
    ways: Sequence[Way] = ("pgmo", "default")
    limit: int = LIMIT


def ask(
    job: Job,
    card: Card,
    question: Question | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Rehearse a job, and answer a question about it.

    `notify` is called with status messages. Sizes in the answer are in bytes.

    Raises:
        OptionError: if a search has fewer than two values, or a measured step is impossibly short.
        RehearsalError: if the job cannot be rehearsed; the message gives the reason.
        ProfileError: if the requests of a changed script at different values do not correspond.
        AdapterError: if there is no compiler for the stub.
    """
    question = question or Question()
    question = replace(question, values=question.values or values_of(job))
    job = replace(
        job,
        python=find_torch_build(job.python).python,
        steps=question.steps,
        samples=question.samples,
    )
    inquiry = _Inquiry(job, card, question, notify)
    if job.varies and question.value is None:
        return inquiry.answer_largest()
    return inquiry.answer_one_value()


class _Inquiry:
    """A question with the evidence of all its rehearsals."""

    def __init__(
        self, job: Job, card: Card, question: Question, notify: Callable[[str], None]
    ) -> None:
        self._job, self._card, self._question, self._notify = job, card, question, notify
        self._evidence: list[Evidence] = []

    def answer_one_value(self) -> Answer:
        """Rehearse one value on the card; if the script ends early, also on an unlimited card."""
        card, value, evidence = self._card, self._question.value, self._evidence
        self._notify(f"rehearsing for {card.name}")
        self._rehearse(card, "pgmo")
        if not evidence[0].rehearsal.fits and evidence[0].whole and not evidence[0].is_past_work:
            # The iteration that counts arithmetic can take more memory than other iterations.
            self._notify(
                "memory ran out after three iterations; rehearsing again without counting flops"
            )
            self._rehearse(card, "pgmo", work=False)
        ran = evidence[-1].rehearsal.fits
        if not evidence[0].whole or not (ran or evidence[-1].growth):
            why = "fewer than three iterations ran" if ran else "memory ran out"
            self._notify(f"{why} on {card.name}; rehearsing on an unlimited card")
            self._rehearse(unlimited(card), "pgmo")
        law = Law(evidence)
        need = law.need(value)
        growing = _growing(law, card, value, ran=ran)
        fits: dict[Way, bool] = {way: law.fits(value, card.usable, way) for way in WAYS}
        fits["pgmo"] = ran
        if ran and growing is None and law.later_at(value) > law.at(value).peak:
            need = self._rehearse_later_steps(need, fits)
        if growing is not None:
            fits = {way: growing.fits and fits[way] for way in WAYS}
        ways = tuple(dict.fromkeys(one.way for one in evidence))  # the ways on this card
        proved = ways if growing is None else ()
        return self._answer(law, value, need=need, fits=fits, proved=proved, growing=growing)

    def _rehearse(self, card: Card, way: Way, *, work: bool = True) -> None:
        value = self._question.value
        self._evidence.append(collect(self._job, card, value=value, way=way, work=work))

    def _rehearse_later_steps(self, need: Need, fits: dict[Way, bool]) -> Need:
        """Rehearse with the PyTorch allocators that are predicted to fit, and correct `fits`.

        Returns the corrected need.
        The predictions for PyTorch's allocators cover only the first steps, and a later step takes
        more memory. If the job fits with the default settings, expandable segments are not
        rehearsed. If memory ran out, the need is at least a page more than the card has.
        """
        reserved, card = dict(need.reserved), self._card
        for way in PYTORCH:
            if not fits[way]:
                continue
            self._notify(f"a later step takes more memory; rehearsing with {NAMES[way]}")
            self._rehearse(card, way, work=False)
            fits[way] = self._evidence[-1].rehearsal.fits
            took = taken(self._evidence[-1]) if fits[way] else card.usable - need.context + PAGE
            reserved[way] = max(reserved[way], took)
            if fits[way]:
                break
        return replace(need, reserved=reserved)

    def answer_largest(self) -> Answer:
        """Search for the largest value with each allocator, and predict one for each change."""
        card, question = self._card, self._question
        shown = ", ".join(map(str, sorted(set(question.values))))
        then = ", and then at the predicted value" if question.prove else ""
        self._notify(f"rehearsing at {shown}{then}")
        done = search(
            self._job,
            card,
            ways=question.ways,
            values=question.values,
            prove=question.prove,
            limit=question.limit,
        )
        self._evidence += done.evidence
        largest = list(done.found)
        for change in question.changes:
            self._notify(f"rehearsing with {change} at {shown}")
            largest.append(self._largest_with(change, done.law))
        first = done.found[0]
        value = first.value or 1
        fits: dict[Way, bool] = {way: done.law.fits(value, card.usable, way) for way in WAYS}
        if first.proved:
            fits[first.way] = True
        growing = _growing(done.law, card, value, ran=first.value > 0)
        if growing is not None and not growing.growth.is_bounded:
            fits = dict.fromkeys(WAYS, False)
        return self._answer(
            done.law,
            value,
            need=done.law.need(value),
            fits=fits,
            proved=tuple(one.way for one in done.found if one.proved),
            largest=tuple(largest),
            effective=question.effective,
            growing=growing,
        )

    def _largest_with(self, change: str, plain: Law) -> Largest:
        """Predict the largest value that fits with pgmo and a change of the script."""
        evidence = learn(self._job, self._card, sorted(set(self._question.values)), change)
        self._evidence += evidence
        law = Law(evidence, above=plain.above)
        value = min(largest_value(law, self._card.usable, "pgmo"), self._question.limit)
        return Largest("pgmo", change, value, False, law.need(value) if value else None)

    def _answer(self, law: Law, value: int | None, **parts: Any) -> Answer:
        """Return an answer with the given parts, and with the parts that the question requests."""
        job, card, question = self._job, self._card, self._question
        steps = question.steps
        if question.samples is not None and value:
            steps = question.samples / value
        time = forecast(work_at(law, value), card, steps=steps, measured=question.measured)
        other_ways: list[Alternative] = []
        if question.what_if:
            self._notify("rehearsing other ways to train")
            other_ways, made = alternatives(job, card, law, value)
            self._evidence += made
        other_cards: list[CardRow] = []
        if question.cards is not None:
            self._notify("computing the result on other cards")
            other_cards = on_cards(
                law,
                value,
                cards=question.cards or None,
                samples=question.samples,
                steps=question.steps,
                measured=question.measured,
            )
        pinned = [one.rehearsal.pinned_peak for one in self._evidence if one.value == value]
        return Answer(
            name=job.command[1] if job.command[0] == "-m" else Path(job.command[0]).name,
            card=card,
            option=job.option,
            value=value,
            holders=_holders(self._evidence),
            alternatives=tuple(other_ways),
            cards=tuple(other_cards),
            forecast=time,
            missed=_missed(self._evidence),
            pinned=max(pinned, default=0),
            rehearsals=len(self._evidence),
            seconds=sum(one.rehearsal.seconds for one in self._evidence),
            **parts,
        )


def _growing(law: Law, card: Card, value: int | None, *, ran: bool) -> GrowingJob | None:
    """Return a job's growth, or None if it does not matter. `ran`: whether the rehearsal fits."""
    growth = law.growth
    if growth is None:
        return None
    total = law.growth_at(value)
    spare = card.usable - (law.need(value).total("pgmo") - total)
    if not is_relevant(growth, spare):
        return None
    fits = ran and growth.is_bounded and total <= spare
    last = growth.last_step(spare)
    if not ran and total <= spare:  # growth alone does not fill the card
        last = min(last, max(growth.rehearsed, law.last.rehearsal.iterations or 0))
    return GrowingJob(growth, last, fits)


def _missed(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    """Return the evaluations, checkpoints and replacements of parameters that no rehearsal ran.

    Rehearsals without such a record are ignored: memory ran out in their first step.
    """
    lists = [one.known["missed"] for one in evidence if "missed" in one.known]
    return tuple(text for text in lists[0] if all(text in one for one in lists)) if lists else ()


def _holders(evidence: Sequence[Evidence]) -> dict[str, tuple[Holder, ...]]:
    """Return the holders at the last profile's peak, by "module", "op" and "phase".

    The result is {} without a profile.
    """
    steady = [one.steady for one in evidence if one.steady is not None]
    if not steady:
        return {}
    peak = find_peak(steady[-1], top=8)
    return {"module": peak.modules, "op": peak.operators, "phase": peak.phases}
