"""Tests that `pgmo run --fit` begins with the first attempt that fits by rehearsals.

Of budgets of recomputation, it chooses the largest one that fits.
"""

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from pgmo.cards import Card
from pgmo.errors import RehearsalError
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.next_plan import choice
from pgmo.fit.next_plan.attempts import Attempt, possible_attempts, value_of
from tests.unit.fit.answers import pretend
from tests.unit.fit.loops import MIB, card, evidence, trial_and_error

LEAST = 40 * MIB
"""Least bytes of the step that recomputation reaches."""


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> list[Evidence]:
    """Replace rehearsals; recomputation takes a tenth more than its budget."""

    def collect(
        job: Job, card: Card, *, value: Any = None, change: str | None = None, **options: Any
    ) -> Evidence:
        batch = value or value_of(job.command, "-b {}") or 8
        way = options.get("way", "default")
        made = evidence(batch, way=way, usable=card.usable)
        if change is None:
            return replace(made, value=value)
        budget = int(change.removeprefix("recompute:").removesuffix("B"))
        if budget < LEAST:
            raise RehearsalError("the budget is below the least peak")
        took = made.rehearsal.card_peak - _step(batch) + budget + budget // 10
        return replace(made, rehearsal=replace(made.rehearsal, card_peak=took))

    return pretend(monkeypatch, collect)


def _step(batch: int) -> int:
    """Return the peak of the loop's step without parameters and states, in bytes."""
    need = choice.Law([evidence(batch, way="pgmo")]).need(batch)
    return need.allocated_peak - need.parameters - need.optimizer_state


def test_a_fitting_batch_is_not_changed(rehearsed: list[Evidence]) -> None:
    attempts = possible_attempts(["train.py", "-b", "4"], "-b {}", "-a {}")
    assert choice.first_that_fits(attempts, "-b {}", card(2000), lambda _: None) == 0
    assert len(rehearsed) == 1


def test_the_first_micro_batch_that_fits(rehearsed: list[Evidence]) -> None:
    attempts = possible_attempts(["train.py", "-b", "64"], "-b {}", "-a {}")
    at = choice.first_that_fits(attempts, "-b {}", card(1024), lambda _: None)
    most = trial_and_error(1 << 30, "pgmo")
    before, found = (value_of(attempts[one].command, "-b {}") for one in (at - 1, at))
    assert found <= most < before


@pytest.mark.parametrize("vary", ["-b {}", None])
def test_without_a_batch_that_fits_it_recomputes(
    vary: str | None, rehearsed: list[Evidence]
) -> None:
    attempts = possible_attempts(["train.py", "-b", "64"], vary, vary and "-a {}")
    at = choice.first_that_fits(attempts, vary, card(300), lambda _: None)
    assert at == len(attempts) - 1
    assert attempts[at].change == "recompute:min"


def test_recomputation_gets_what_the_card_has_left(rehearsed: list[Evidence]) -> None:
    attempt = Attempt(("train.py", "-b", "16"), "recompute:min", "recomputed (pgmo.recompute)")
    where = card(600)
    found = choice.with_least_recomputation(attempt, where, lambda _: None)
    assert found.change is not None
    budget = int(found.change.removeprefix("recompute:").removesuffix("B"))
    over = evidence(16, way="pgmo").rehearsal.card_peak - _step(16)
    assert over + budget * 1.1 <= where.usable
    assert over + budget * 1.1 > 0.9 * where.usable
    assert "within " in found.words


def test_recomputation_is_maximal_if_no_budget_fits(rehearsed: list[Evidence]) -> None:
    attempt = Attempt(("train.py", "-b", "16"), "recompute:min", "recomputed (pgmo.recompute)")
    assert choice.with_least_recomputation(attempt, card(310), lambda _: None) == attempt


def test_a_card_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: Any, **__: Any) -> Any:
        return subprocess.CompletedProcess([], 1, "", "Traceback\nthere is no CUDA device\n")

    monkeypatch.setattr(choice.subprocess, "run", failed)
    with pytest.raises(RehearsalError, match="there is no CUDA device"):
        choice.free_card()
