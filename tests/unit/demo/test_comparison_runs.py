from dataclasses import replace
from pathlib import Path

import pytest

from pgmo.demo.agreement import Agreement
from pgmo.demo.comparison_runs import combine, compare, saved_stem, settle
from pgmo.demo.job import Outcome, PlanOutcome, TrainingJob
from pgmo.errors import OptionError

PLANNED = PlanOutcome(3, 100, 110, 0.1, "best_fit", 1, ("record", "replay"), 0.5, 0.75, "text")


def outcome(second: float, planned: PlanOutcome | None = PLANNED) -> Outcome:
    seconds = (99.0,) * 7 + (second, second, 50.0)  # warm-up, then two steady and one disturbed
    losses = ("0x1p+0",) * 10
    return Outcome(seconds, losses, "ab", 1000, 900, (5000,) * 7 + (1, 2, 3), 2, "2.13", planned)


def combined(default: Outcome, replayed: Outcome, saved: Outcome):
    job = TrainingJob("gpt", "default", 10)
    agreed = Agreement.IDENTICAL
    return combine(job, Path("out/gpt"), default, replayed, saved, agreed=agreed)


def test_step_times_are_medians_of_the_steady_iterations():
    row = combined(outcome(3, None), outcome(2), outcome(1))
    steps = row.step_seconds_default, row.step_seconds_pgmo, row.step_seconds_saved_plan
    assert steps == (3, 2, 1)
    assert row.faults_pgmo == 2


JOBS = [
    TrainingJob("lstm", "default"),
    TrainingJob("lstm", "pgmo", save_as="x"),
    TrainingJob("lstm", "pgmo", plan="x"),
]


def settled(results: str, again: str, threads: int = 2) -> tuple[Agreement, list[TrainingJob]]:
    """Settle runs that end with one letter each; `again` are those of the repeated runs."""
    trained: list[TrainingJob] = []

    def train(job: TrainingJob) -> Outcome:
        trained.append(job)
        return replace(outcome(1), digest=again[len(trained) - 1])

    outcomes = [replace(outcome(1), digest=letter, threads=threads) for letter in results]
    found = settle(outcomes, JOBS, train)
    assert len(trained) == len(again)
    return found, trained


def test_runs_that_agree_are_not_repeated():
    assert settled("aaa", "")[0] is Agreement.IDENTICAL


def test_losses_count_as_weights_do():
    good = outcome(1)
    spoiled = replace(good, losses=(*good.losses[:-1], "0x1.0000000000001p+0"), threads=1)
    plain = replace(good, threads=1)
    found = settle([plain, good, spoiled], JOBS, lambda job: plain)
    assert found is Agreement.DIFFERENT


@pytest.mark.parametrize("results", ["baa", "abc"])
def test_plain_pytorch_that_does_not_repeat_itself_is_found(results):
    found, trained = settled(results, "d", threads=1)
    assert found is Agreement.PLAIN_VARIES
    assert trained == [JOBS[0]]
    assert settled(results, "d" + "ccc")[0] is Agreement.PLAIN_VARIES


def test_plain_pytorch_that_varies_hides_no_difference_on_one_thread():
    assert settled("abc", "d" + "efe" + "e")[0] is Agreement.DIFFERENT


@pytest.mark.parametrize("results", ["aba", "aab", "abb", "abc"])
def test_a_difference_on_one_thread_is_a_bug(results):
    assert settled(results, "a", threads=1)[0] is Agreement.DIFFERENT
    assert settled(results, "a" + "cdc" + "c")[0] is Agreement.DIFFERENT


def test_a_difference_on_several_threads_alone_is_none():
    found, trained = settled("aba", "a" + "ccc")
    assert found is Agreement.THREADS_VARY
    assert [job.threads for job in trained] == [0, 1, 1, 1]
    assert [job.save_as for job in trained[1:]] == [None, None, None]  # keeps the saved files
    assert [job.plan for job in trained[1:]] == [None, None, "x"]


def test_plain_pytorch_that_varies_on_one_thread_is_found():
    assert settled("aba", "a" + "cdc" + "e")[0] is Agreement.PLAIN_VARIES


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
