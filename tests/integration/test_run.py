"""Tests of `pgmo run` on unchanged scripts, with the same bits and replay."""

import pytest

from tests.integration.running import SCRIPTS, hit_rates, plainly_and_under_pgmo, results, run

pytest.importorskip("torch")


def test_a_plain_loop_with_evaluations(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "plain.py", 20, fresh=True)
    assert session["summary"]["iterations"] == 20
    assert min(hit_rates(session, last=14)) == 1  # iterations without the evaluations


@pytest.mark.parametrize("options", [(), ("--save", "plans")])
@pytest.mark.parametrize("how", ["adam", "sgd", "zeroed", "fresh", "loader"])
def test_twelve_steps_come_from_slots_from_the_seventh_on(tmp_path, how, options):
    session = plainly_and_under_pgmo(tmp_path, "two_layers.py", how, options=options)
    summary = session["summary"]
    assert summary["iterations"] == 12
    shares = [one["bytes_hit"] / one["bytes_requested"] for one in session["iterations"]]
    assert min(shares[6:]) > 0.95
    assert summary["run_bytes_hit"] > 0.4 * summary["run_bytes"]


def test_gradient_accumulation(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "loops.py", "accumulation", 12)
    assert session["summary"]["iterations"] == 12
    assert min(hit_rates(session, last=6)) >= 0.99


@pytest.mark.parametrize("critic_steps", [1, 5])
def test_two_optimizers_are_one_iteration(tmp_path, critic_steps):
    session = plainly_and_under_pgmo(tmp_path, "gan.py", 12, critic_steps)
    assert session["summary"]["iterations"] == 12
    assert session["summary"]["plans"] <= 2  # one for the first iteration, which differs
    assert min(hit_rates(session, last=6)) >= 0.99


def test_an_optimizer_that_evaluates_several_times(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "loops.py", "closures", 10)
    assert session["summary"]["iterations"] == 10


def test_steps_that_a_scaler_leaves_out_end_iterations(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "loops.py", "scaled", 20)
    assert session["summary"]["iterations"] == 20
    assert max(one["requests"] for one in session["iterations"]) < 2 * min(
        one["requests"] for one in session["iterations"]
    )


@pytest.mark.slow  # test_callbacks runs Lightning each time
def test_a_lightning_script(tmp_path):
    pytest.importorskip("lightning")
    session = plainly_and_under_pgmo(tmp_path, "with_lightning.py", 20, tmp_path)
    assert session["summary"]["iterations"] == 20
    rates = hit_rates(session, last=12)
    assert sum(rates) / 12 >= 0.99
    assert rates.count(1) >= 9  # a validation adds a request


def test_a_transformers_script(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    session = plainly_and_under_pgmo(tmp_path, "with_transformers.py", 16, tmp_path)
    assert session["summary"]["iterations"] == 16
    rates = hit_rates(session, last=6)
    assert min(rates) >= 0.95  # the end of an epoch has other requests
    assert sorted(rates)[1] >= 0.99


def test_a_loop_of_which_nothing_repeats_is_left_alone_with_a_note(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "never_alike.py", 40)
    phases = [one["phase"] for one in session["iterations"]]
    assert set(phases) == {"backoff", "record"}
    done = run(tmp_path, "-m", "pgmo", "run", SCRIPTS / "never_alike.py", 40)
    assert len(results(done)) == 40
    assert "pgmo: no block was served from a slot" in done.stderr
    assert "  plan       none serves: " in done.stderr
