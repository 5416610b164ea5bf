"""Programs that share a card by processes compute what they compute alone, to the last bit."""

import json
import os
import signal
import subprocess
import sys

import pytest

import pgmo
from pgmo.cli.main import main
from pgmo.share.broker import Broker
from pgmo.share.meeting import status
from pgmo.share.schedule import Rules
from tests.integration.running import SCRIPTS, results, run
from tests.unit.share.oracle import check

pytest.importorskip("torch")

SCRIPT = str(SCRIPTS / "shared_steps.py")


def shared(folder, *words, environment=None):
    """Runs a command under `pgmo share`, with a card of one byte."""
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
    done = shared(tmp_path, "no-such-command")
    assert done.returncode == 2
    assert "no-such-command cannot be run" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--linger", "1", "--", "true"], "for a broker alone"),
        (["--priority", "1"], "give one after --"),
        (["--status", "--", "true"], "--status starts nothing"),
        (["--json", "--", "true"], "--json goes with --status"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words, said, tmp_path, capsys):
    address = tmp_path / "share"
    with Broker(address, Rules()):
        assert main(["share", "--socket", str(address), *words]) == 2
    assert said in capsys.readouterr().err


def test_the_status_shows_who_has_the_card(tmp_path):
    address = tmp_path / "socket" / "share"
    root = os.path.dirname(os.path.dirname(pgmo.__file__))
    serving = subprocess.Popen(
        [sys.executable, "-m", "pgmo", "share", "--socket", str(address)],
        env={**os.environ, "PYTHONPATH": root},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert str(address) in serving.stderr.readline()
    holds = """
import sys
from pathlib import Path
from pgmo.share.client import Client, Registration
from tests.unit.share.test_broker import Memory
client = Client(Path(sys.argv[1]), Registration("GPU-1", 1000, "train.py"), Memory())
client.take()
print("has it", flush=True)
input()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", holds, str(address)],
        env={**os.environ, "PYTHONPATH": root},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "has it\n"
    show = ("-m", "pgmo", "share", "--socket", address, "--status")
    shown = run(tmp_path, *show).stdout
    assert "card 'GPU-1', 1000 B, room for everybody" in shown
    assert f"'train.py'  pid {holder.pid}, turn for" in shown
    told = run(tmp_path, *show, "--json").stdout
    (member,) = json.loads(told)["cards"][0]["members"]
    assert (member["state"], member["turns"]) == ("turn", 1)
    assert status(address)["cards"][0]["card"] == "GPU-1"
    holder.communicate("\n")
    serving.send_signal(signal.SIGTERM)
    serving.communicate()
    assert serving.returncode == 0
    assert not address.exists()
