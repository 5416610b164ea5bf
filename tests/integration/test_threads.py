"""Tests of programs that train on several threads, with the same results and no errors."""

import json

import pytest

from tests.integration.running import SCRIPTS, plainly_and_under_pgmo, results, run

pytest.importorskip("torch")


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_train_under_pgmo_run(tmp_path, threads):
    """Notes would report that the session gave up; there are none."""
    plainly_and_under_pgmo(tmp_path, "threads.py", threads)
    fields = json.loads((tmp_path / "run.json").read_text())
    (session,) = fields["sessions"]
    assert session["iterations"]


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_call_step(tmp_path, threads):
    plain = run(tmp_path, SCRIPTS / "threads.py", threads)
    served = run(tmp_path, SCRIPTS / "threads.py", threads, "session")
    assert served.stdout == plain.stdout
    assert len(results(plain)) == threads


def test_a_thread_that_evaluates_under_pgmo_run(tmp_path):
    plainly_and_under_pgmo(tmp_path, "evaluating_thread.py")


def test_a_thread_that_evaluates_in_a_pause(tmp_path):
    plain = run(tmp_path, SCRIPTS / "evaluating_thread.py")
    paused = run(tmp_path, SCRIPTS / "evaluating_thread.py", "pause")
    assert results(paused) == results(plain)
    assert paused.stdout.splitlines()[-1] == "replay 1.00"
