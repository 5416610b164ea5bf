"""Tests of `pgmo share` with a broker that listens already."""

import json
import threading

import pytest

from pgmo.cli.main import main
from pgmo.share.broker import Broker
from pgmo.share.schedule import Rules


@pytest.fixture
def share(tmp_path):
    """Start a broker, and return a function that runs `pgmo share` on its socket."""
    address = tmp_path / "socket" / "share"
    with Broker(address, Rules()) as broker:
        thread = threading.Thread(target=broker.run)
        thread.start()
        yield lambda *words: main(["share", "--socket", str(address), *words])
        broker.stop()
        thread.join()


def test_the_command_runs_under_the_broker_that_is_there(share):
    assert share("--", "sh", "-c", "exit 7") == 7


def test_a_command_that_is_not_there_is_an_error_of_the_line(share, capsys):
    assert share("--", "no-such-command") == 2
    assert "no-such-command cannot be run" in capsys.readouterr().err


def test_the_status_names_cards_and_processes(share, capsys):
    assert share("--status") == 0
    assert capsys.readouterr().out == "no card is shared\n"
    assert share("--status", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"cards": []}


def test_the_status_of_a_broker_that_is_not_there_is_an_error(tmp_path, capsys):
    assert main(["share", "--socket", str(tmp_path / "none"), "--status"]) == 1
    assert "no broker answers at" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--lanes", "1"], ["--deadline", "5"], ["--card-bytes", "1"], ["--log", "log"]]
)
def test_options_that_a_running_broker_would_ignore_are_refused(share, capsys, options):
    assert share(*options, "--", "true") == 2
    assert "a broker with its own log and rules listens at" in capsys.readouterr().err
