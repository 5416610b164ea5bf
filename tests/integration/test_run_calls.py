"""Tests of `pgmo run --step-on`, with the same bits and with calls as iterations."""

import pytest

from tests.integration.running import SCRIPTS, plainly_and_under_pgmo, run

pytest.importorskip("torch")


@pytest.mark.parametrize("target", ["serving:predict", "__main__:Server.answer"])
def test_each_call_is_an_iteration(tmp_path, target):
    session = plainly_and_under_pgmo(tmp_path, "serving.py", 1, options=("--step-on", target))
    assert session["summary"]["iterations"] == 60
    assert sum(one["hits"] for one in session["iterations"]) > 0


def test_calls_on_several_threads(tmp_path):
    options = ("--step-on", "serving:predict")
    session = plainly_and_under_pgmo(tmp_path, "serving.py", 4, options=options)
    assert 0 < session["summary"]["iterations"] <= 60


def test_steps_of_optimizers_do_not_count_then(tmp_path):
    options = ("--step-on", "torch.nn.Linear:forward")
    session = plainly_and_under_pgmo(tmp_path, "plain.py", 4, options=options)
    assert session["summary"]["iterations"] > 4


def test_a_function_that_is_never_called_is_said(tmp_path):
    command = ("-m", "pgmo", "run", "--step-on", "json:dumps", SCRIPTS / "serving.py", 1)
    done = run(tmp_path, *command)
    assert "no call of json:dumps was seen" in done.stderr
