from dataclasses import replace
from pathlib import Path

import pytest

from pgmo.demo.comparison_runs import combine, compare, saved_stem
from pgmo.demo.job import Job, Outcome, PlanOutcome
from pgmo.errors import OptionError

PLANNED = PlanOutcome(3, 100, 110, 0.1, "best_fit", 1, ("record", "replay"), 0.5, 0.75, "text")


def outcome(second: float, planned: PlanOutcome | None = PLANNED) -> Outcome:
    seconds = (99.0,) * 7 + (second, second, 50.0)  # warm-up, then two steady and one disturbed
    losses = ("0x1p+0",) * 10
    return Outcome(seconds, losses, "ab", 1000, 900, (5000,) * 7 + (1, 2, 3), 2, "2.13", planned)


def combined(default: Outcome, replayed: Outcome, saved: Outcome):
    return combine(Job("gpt", "default", 10), Path("out/gpt"), default, replayed, saved)


def test_step_times_are_medians_of_the_steady_iterations():
    row = combined(outcome(3, None), outcome(2), outcome(1))
    steps = row.step_seconds_default, row.step_seconds_pgmo, row.step_seconds_saved_plan
    assert steps == (3, 2, 1)
    assert row.faults_pgmo == 2


def test_identical_needs_all_losses_and_weights_of_all_three():
    good = outcome(1)
    assert combined(outcome(1, None), good, good).identical
    for spoiled in (
        replace(good, digest="ac"),
        replace(good, losses=(*good.losses[:-1], "0x1.0000000000001p+0")),
    ):
        assert not combined(outcome(1, None), spoiled, good).identical
        assert not combined(outcome(1, None), good, spoiled).identical


def test_the_row_has_the_promised_keys():
    fields = combined(outcome(1, None), outcome(1), outcome(1)).to_fields()
    assert fields.keys() >= {
        "network",
        "blocks",
        "max_load",
        "arena",
        "gap",
        "hit_rate",
        "hit_bytes_rate",
        "step_seconds_default",
        "step_seconds_pgmo",
        "rss_default",
        "rss_pgmo",
        "identical",
    }
    assert (fields["hit_rate"], fields["hit_bytes_rate"]) == (0.5, 0.75)


def test_outcomes_in_the_wrong_order_are_refused():
    with pytest.raises(OptionError, match="must come from runs with pgmo"):
        combined(outcome(1), outcome(1, None), outcome(1))


@pytest.mark.parametrize(("lengths", "fewest"), [("fixed", 10), ("varying", 16)])
def test_too_few_iterations_are_refused_before_anything_runs(lengths, fewest, tmp_path):
    with pytest.raises(OptionError, match=f"use at least {fewest}"):
        compare("gpt", tmp_path / "out", iterations=fewest - 1, lengths=lengths)
    assert not (tmp_path / "out").exists()


def test_saved_files_of_fixed_and_varying_lengths_do_not_collide():
    assert saved_stem("gpt", "d") != saved_stem("gpt", "d", "varying")
