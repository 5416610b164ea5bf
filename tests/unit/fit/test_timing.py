"""Tests of times that are bounded by a card's rates or scaled from a measured step."""

import pytest

from pgmo.cards import Card, find
from pgmo.errors import OptionError
from pgmo.fit.what_if.timing import TimedStep, bound, forecast, in_words, rate, scaled

SLOW = Card("slow", 1, 1, (8, 0), 1, bandwidth=1e9, flops={"float32": 1e12})
FAST = Card("fast", 1, 1, (8, 0), 1, bandwidth=1e10, flops={"float32": 2e12, "float16": 4e12})
WORK = [["float32", 1e12, 1000, 1], ["", 0.0, 10**9, 2]]


def test_each_operator_takes_the_longer_of_arithmetic_and_traffic() -> None:
    assert bound(WORK, SLOW) == pytest.approx(1 + 2)
    assert bound(WORK, FAST) == pytest.approx(0.5 + 0.2)


def test_a_type_without_a_rate_runs_at_the_next_one() -> None:
    assert rate(FAST, "bfloat16") == 4e12
    assert rate(SLOW, "bfloat16") == 1e12
    assert rate(FAST, "int8") == 2e12


def test_a_measured_step_says_how_far_above_the_bound_a_script_is() -> None:
    plain = forecast(WORK, FAST, steps=10)
    assert plain is not None
    assert (plain.step, plain.total) == (pytest.approx(0.7), pytest.approx(7))
    assert plain.words.startswith("at least")
    measured = forecast(WORK, FAST, steps=10, measured=TimedStep(6.0, SLOW))
    assert measured is not None
    assert measured.step == pytest.approx(1.4)
    assert measured.words.startswith("about")


def test_a_step_faster_than_its_card_is_refused() -> None:
    with pytest.raises(OptionError, match="faster than slow can be"):
        forecast(WORK, FAST, measured=TimedStep(0.1, SLOW))


def test_nothing_is_said_of_a_card_that_is_only_a_size() -> None:
    assert forecast(WORK, find("16GiB")) is None
    assert bound([], SLOW) is None


def test_work_grows_with_the_batch() -> None:
    assert bound(scaled(WORK, 2, 6), SLOW) == pytest.approx(9)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "500 ms"), (30, "30 s"), (1800, "30 minutes"), (1e6, "11.6 days")]
)
def test_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
