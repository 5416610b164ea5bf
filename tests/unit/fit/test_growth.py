"""Tests of growth of live memory: which levels grow, and the forecast for the last step."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pgmo.fit.answer import Answer
from pgmo.fit.ask import _growing
from pgmo.fit.evidence import Evidence
from pgmo.fit.laws.growth import growth_of
from pgmo.fit.laws.law import Law
from tests.unit.fit.answers import answer, rehearse_loop
from tests.unit.fit.loops import MIB, card, evidence

BASE = 300 * MIB


def known(live: Sequence[int], elements: Sequence[int] = (), planned: Any = None) -> dict[str, Any]:
    levels = {"live": list(live), "elements": list(elements) or [9] * len(live)}
    return {"levels": levels, "planned": planned}


@pytest.mark.parametrize(
    ("live", "rate"),
    [
        ([BASE + MIB * step for step in range(10)], MIB),
        ([BASE + 512 * step for step in range(300)], 512),
        # The loop keeps predictions at the end of each epoch of 20 steps.
        ([BASE + MIB * (step // 20) for step in range(400)], MIB / 20),
        ([BASE + MIB * step + MIB * (step % 3) for step in range(60)], MIB),
    ],
)
def test_steadily_rising_memory_is_growth(live: list[int], rate: float) -> None:
    found = growth_of(known(live))
    assert found is not None
    assert found.rate == pytest.approx(rate, rel=0.1)
    assert found.rehearsed == len(live)


@pytest.mark.parametrize(
    "live",
    [
        [BASE] * 40,
        [BASE, BASE + 64 * MIB, *[BASE + 80 * MIB] * 38],  # the first steps make states
        [BASE + MIB * min(step, 20) for step in range(60)],  # a cache fills up
        [BASE + MIB * step for step in range(6)],  # too few steps to judge
        [BASE + MIB * (step % 7) for step in range(60)],
        [BASE + random.Random(3).randrange(MIB) for _ in range(60)],
    ],
)
def test_memory_that_fluctuates_or_settles_is_no_growth(live: list[int]) -> None:
    assert growth_of(known(live)) is None


def test_more_parameters_are_growth_wherever_they_come_in() -> None:
    live = [BASE] * 80 + [BASE + 40 * MIB] * 20
    found = growth_of(known(live, [1000] * 80 + [1400] * 20))
    assert found is not None
    assert found.elements == (1000, 1400)
    assert found.rate == pytest.approx(40 * MIB / 97)
    fewer = growth_of(known(live[::-1], [1400] * 20 + [1000] * 80))
    assert fewer is None


def grown(monkeypatch: pytest.MonkeyPatch, planned: Any, usable: int, **question: Any) -> Answer:
    """Return the answer about a loop that keeps 1 MiB in each step."""

    def collect(*given: Any, **options: Any) -> Evidence:
        made = rehearse_loop(*given, **options)
        levels = known([BASE + MIB * step for step in range(12)], planned=planned)
        return replace(made, known=made.known | levels) if made.known else made

    return answer(monkeypatch, usable, collect, **question)


def test_growth_until_the_last_step_is_part_of_the_need(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = answer(monkeypatch, value=4)
    found = grown(monkeypatch, [103, True], 1 << 30, value=4)
    assert found.is_fit
    assert found.need.growth == 100 * MIB
    assert found.need.total("default") == plain.need.total("default") + 100 * MIB
    assert "Live memory grows by 1.00 MiB per step, which is included for 103 steps." in (
        found.sentence
    )


def test_a_job_that_outgrows_the_card_fits_until_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    found = grown(monkeypatch, [5000, False], 1 << 30, value=4)
    assert not found.is_fit
    assert set(found.fits.values()) == {False}
    assert found.growing is not None
    spare = (1 << 30) - (found.need.total("pgmo") - found.need.growth)
    assert found.growing.last_step == 3 + spare // MIB
    assert found.sentence == (
        f"train.py fits on small <L4> only until about step {found.growing.last_step:,} with pgmo."
        " Live memory grows by 1.00 MiB per step, and the script makes at most 5,000 steps."
    )


def test_a_job_that_fails_for_another_reason_fits_until_the_last_rehearsed_step() -> None:
    made = evidence(4, way="pgmo")
    grows = known([BASE + MIB * step for step in range(12)], planned=[103, True])
    law = Law([replace(made, known=made.known | grows)])
    found = _growing(law, card(4096), 4, ran=False)
    assert found is not None
    assert not found.fits
    assert found.last_step == 12


def test_growth_without_a_known_end_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = grown(monkeypatch, None, 1 << 30, value=4)
    assert not found.is_fit
    assert "give it with --steps" in found.sentence
    assert found.as_json()["growing"]["planned"] is None


def test_a_search_leaves_room_for_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = answer(monkeypatch).batch
    found = grown(monkeypatch, [103, True], 1 << 30)
    assert 0 < found.batch < plain
    assert found.need.total("pgmo") <= 1 << 30
    assert "which is included for 103 steps" in found.sentence


def test_growth_of_a_few_bytes_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    found = grown(monkeypatch, [5, True], 1 << 34, value=4)
    assert found.growing is None
    assert found.is_fit
