import json
import os
import platform
import time
from dataclasses import asdict

import pytest

from pgmo.cli.main import main
from pgmo.cli.terminal.top_view import view
from pgmo.runner.status import DeviceStatus, RunStatus, began_of

DEVICE = DeviceStatus(
    "cuda:0",
    iterations=1200,
    phase="replay",
    hits=0.995,
    run_share=0.75,
    arena=2 << 30,
    peak=3 << 30,
    since=5,
    why=("7 larger than when it was planned", "\x1b[2Ja note"),
)


def status(**fields):
    pid = os.getpid()
    known = {"program": "train.py", "started": time.time() - 75, "written": time.time()}
    return RunStatus(
        pid, began_of(pid), platform.node(), **{**known, "devices": (DEVICE,), **fields}
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PGMO_SHARE", str(tmp_path / "no broker"))
    (tmp_path / "running").mkdir(mode=0o700)
    return tmp_path / "running"


@pytest.fixture
def running(folder):
    path = folder / f"{os.getpid()}.json"
    path.write_text(json.dumps({"version": 1, **asdict(status())}))
    return path


def test_it_says_arena_hits_peaks_and_why_not(running, capsys):
    assert main(["top", str(os.getpid()), "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"train.py  pid {os.getpid()}, for 1 min 1")
    assert lines[1].strip() == "cuda:0  iteration 1,200, replay, from slots since iteration 5"
    assert lines[2].endswith("99.5% of the last iteration")
    assert lines[2].count("█") == 20
    assert lines[3].endswith("75.0% of all bytes from slots")
    assert lines[3].count("█") == 15
    assert lines[4].strip() == "arena 2.00 GiB, peak 3.00 GiB"
    assert lines[5].strip() == "why not: 7 larger than when it was planned"


def test_nothing_is_written_that_a_terminal_would_obey(running, capsys):
    assert main(["top", "--once"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_json_is_one_object(running, capsys):
    assert main(["top", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["pid"] == os.getpid()
    assert run["devices"][0]["hits"] == 0.995


def test_without_a_terminal_it_is_shown_once(running, capsys):
    assert main(["top"]) == 0
    assert capsys.readouterr().out.count("train.py") == 1


def test_nothing_runs(folder, capsys):
    assert main(["top", "--once"]) == 0
    assert capsys.readouterr().out.startswith("no program runs under `pgmo run` here")
    assert main(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": [], "cards": []}


def test_a_process_that_is_none_of_ours_is_an_error_that_names_those_that_are(running, capsys):
    assert main(["top", "1"]) == 1
    assert f"these are: {os.getpid()}" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "inf"])
def test_an_interval_that_is_none_is_a_wrong_command_line(running, interval, capsys):
    assert main(["top", f"--interval={interval}"]) == 2
    assert "give seconds above 0" in capsys.readouterr().err


def test_a_view_that_is_old_says_so():
    assert "as of 1 min 0 s ago" in view([status(written=time.time() - 60)], time.time())
    assert "ago" not in view([status()], time.time())


def test_on_a_terminal_it_goes_on_until_the_program_has_ended(running, monkeypatch, capsys):
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    rounds = []

    def sleep(_seconds):
        rounds.append(1)
        if len(rounds) == 3:
            running.unlink()

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(["top"]) == 0
    assert len(rounds) == 3
