"""Tests that programs that share a card in processes compute the same bits as alone."""

import sys

import pytest

from tests.integration.running import SCRIPTS, results, run
from tests.unit.share.oracle import check

pytest.importorskip("torch")

SCRIPT = str(SCRIPTS / "shared_steps.py")


def shared(folder, *words, environment=None):
    """Run a command under `pgmo share`, with a card of one byte."""
    options = ["--socket", folder / "socket" / "share", "--log", folder / "log"]
    command = ["-m", "pgmo", "share", *options, "--card-bytes", "1", "--", *words]
    return run(folder, *command, check=False, fresh=True, environment=environment)


def test_two_processes_in_turns_compute_what_each_computes_alone(tmp_path):
    alone = [results(run(tmp_path, SCRIPT, seed)) for seed in (1, 2)]
    both = f"{sys.executable} {SCRIPT} 1 > one & {sys.executable} {SCRIPT} 2 > two; wait"
    done = shared(tmp_path, "sh", "-c", both)
    assert done.returncode == 0, done.stderr
    together = [(tmp_path / name).read_text().splitlines() for name in ("one", "two")]
    assert together == alone
    verdict = check(tmp_path / "log")
    assert verdict.wrong == []
    assert verdict.turns == 24


@pytest.mark.slow
def test_scripts_as_they_are_take_turns_with_run(tmp_path):
    plain = results(run(tmp_path, SCRIPTS / "plain.py", 12))
    command = [sys.executable, "-m", "pgmo", "run", "-q", "--share", SCRIPTS / "plain.py", 12]
    done = shared(tmp_path, *command)
    assert results(done) == plain
    assert check(tmp_path / "log").turns >= 5


def test_the_commands_exit_code_is_that_of_share(tmp_path):
    assert shared(tmp_path, sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    killed = "import os; os.kill(os.getpid(), 9)"
    assert shared(tmp_path, sys.executable, "-c", killed).returncode == 137
