"""Verdicts from figures: each sentence, and its condition."""

from dataclasses import replace

import pytest

from pgmo.allocator.adapters.baseline import Baseline, environment_settings
from pgmo.allocator.session.verdict.judge import contradictions, judge, judge_device
from pgmo.allocator.session.verdict.summary import Summary

MIB = 1 << 20

FIGURES = Baseline(
    reserved=990 * MIB,
    peak_reserved=990 * MIB,
    live=0,
    peak_live=500 * MIB,
    taken=760 * MIB,
    peak_taken=760 * MIB,
    card=2000 * MIB,
    requests=9,
    retries=0,
    failures=0,
    broken=0,
)


def summary(**fields):
    known = {"iterations": 20, "recorded": 4, "replayed": 16, "since": 5}
    return Summary(**{**known, "run_bytes": 1000, "run_bytes_hit": 800, **fields})


@pytest.mark.parametrize(
    ("taken", "plain", "sentence"),
    [
        (760, 990, "760 MiB instead of 990 MiB (23 % less)"),
        (990, 760, "990 MiB instead of 760 MiB (30 % more)"),
        (971, 1000, "971 MiB, about the same as plain PyTorch (1000 MiB)"),
        (1029, 1000, "1.00 GiB, about the same as plain PyTorch (1000 MiB)"),
        (1031, 1000, "1.01 GiB instead of 1000 MiB (3 % more)"),
        (969, 1000, "969 MiB instead of 1000 MiB (3 % less)"),
    ],
)
def test_the_sentence_compares_both_peaks(taken, plain, sentence):
    figures = replace(FIGURES, peak_taken=taken * MIB, peak_reserved=plain * MIB, taken=0)
    verdict = judge_device(figures)
    assert str(verdict) == sentence
    assert verdict.wrong == ()
    assert (verdict.taken, verdict.plain) == (taken * MIB, plain * MIB)
    assert "counted" in verdict.basis
    assert "modelled" in verdict.basis


def test_plain_pytorch_has_no_figure_if_it_would_run_out_of_memory():
    verdict = judge_device(replace(FIGURES, failures=3, peak_reserved=400 * MIB))
    assert verdict.wrong == ()
    assert verdict.plain == 0
    assert verdict.saving == 0
    assert str(verdict) == (
        "760 MiB, where plain PyTorch would have had no room for 3 requests on this card of "
        "1.95 GiB"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"peak_reserved": 499 * MIB}, "live 500 MiB, but modelled 499 MiB"),
        ({"peak_taken": 499 * MIB, "taken": 0}, "live 500 MiB, but taken 499 MiB"),
        (
            {"peak_taken": 2001 * MIB},
            "taken 2,098,200,576 bytes, but the card has 2,097,152,000 bytes",
        ),
        ({"peak_reserved": 3000 * MIB}, "modelled 2.93 GiB, but the card has 1.95 GiB"),
        ({"taken": 761 * MIB}, "taken now 761 MiB, but at most 760 MiB"),
    ],
)
def test_figures_that_contradict_each_other_are_no_comparison(change, text):
    figures = replace(FIGURES, **change)
    assert text in contradictions(figures)
    verdict = judge_device(figures)
    assert text in verdict.wrong
    assert str(verdict).startswith("live bytes peaked at 500 MiB; pgmo took ")
    assert verdict.plain == 0
    line = next(one for one in str(summary(verdict=verdict)).splitlines() if "error" in one)
    assert text in line


def test_sleeping_blocks_may_live_without_memory():
    slept = replace(FIGURES, peak_taken=400 * MIB, taken=0, slept=True)
    assert contradictions(slept) == ()
    assert "60 % less" in str(judge_device(slept))


def test_a_model_that_misses_requests_compares_nothing():
    verdict = judge_device(replace(FIGURES, broken=1, peak_reserved=10 * MIB))
    assert str(verdict) == "live bytes peaked at 500 MiB; pgmo took 760 MiB"
    assert verdict.wrong == ()


def test_iterations_that_slots_served_while_recorded_are_named():
    text = str(summary(iterations=3, recorded=3, replayed=0, since=2, served_while_recording=2))
    assert "3 recorded (slots served 2 of them), 0 replayed" in text


def test_without_a_model_there_are_two_facts():
    counters = summary(peak_slot_bytes=90 * MIB, arena=100 * MIB)
    verdict = judge(counters)
    assert str(verdict) == "live bytes in slots peaked at 90.0 MiB; their arena takes 100 MiB"
    assert (verdict.plain, verdict.taken, verdict.live) == (0, 100 * MIB, 90 * MIB)


def test_the_share_from_slots_is_of_the_whole_run():
    text = str(summary(verdict=judge_device(FIGURES)))
    assert "80 % of the 1000 B that all 20 iterations requested came from slots; iteration" in text
    text = str(summary(verdict=judge_device(FIGURES), replayed=10, uncounted=6))
    assert "80 % of the 1000 B that the 14 counted iterations requested" in text


@pytest.mark.parametrize(
    ("counters", "no_slots", "reason"),
    [
        (Summary(1, 1, 0), "", "iterations so far: 1"),
        (Summary(3, 3, 0), "", "a plan usually needs a first iteration, two that agree"),
        (Summary(9, 9, 0), "", "none of the 9 iterations could be planned yet"),
        (Summary(9, 9, 0), "nothing is ever freed", "nothing is ever freed"),
        (Summary(4, 4, 0, plans=1), "", "no iteration has followed its plan yet"),
    ],
)
def test_a_session_without_slots_says_why(counters, no_slots, reason):
    alone = judge(counters, None, no_slots)
    assert reason in alone.reason
    assert str(alone) == "no block was served from a slot"
    with_model = judge(counters, FIGURES, no_slots)
    assert reason in with_model.reason
    assert "23 % less" in str(with_model)
    assert f"plan       none: {with_model.reason}" in str(replace(counters, verdict=with_model))


def test_settings_that_the_model_lacks_are_no_settings():
    assert environment_settings({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})
    assert environment_settings({"PYTORCH_ALLOC_CONF": "expandable_segments:True"})
    for text in ("backend:cudaMallocAsync", "unknown_setting:1", "max_split_size_mb:x"):
        assert environment_settings({"PYTORCH_CUDA_ALLOC_CONF": text}) is None
