"""Tests of the command lines that `pgmo run --fit` starts, and of what it does when one ends."""

import json
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from pgmo.cards import Card, find
from pgmo.cli import next_plan
from pgmo.cli.commands.programs import run as run_command
from pgmo.cli.main import main
from pgmo.cli.parser import build_parser
from pgmo.errors import RehearsalError
from pgmo.fit.next_plan import choice
from pgmo.fit.next_plan.attempts import Attempt


def given(*words: str) -> Namespace:
    return build_parser().parse_args(["run", "--fit", *words])


@pytest.fixture
def started(monkeypatch):
    """Return lists of started command lines and of their endings: (exit code, out of memory)."""
    lines: list[list[str]] = []
    endings: list[tuple[int, bool]] = []

    def start(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        code, out_of_memory = endings[len(lines)]
        lines.append(command)
        counted = {"out_of_memory": ["pgmo-oom-1.txt"] if out_of_memory else []}
        Path(command[command.index("--json") + 1]).write_text(json.dumps(counted))
        return subprocess.CompletedProcess(command, code)

    def unreadable() -> Card:
        raise RehearsalError("there is no card here")

    monkeypatch.setattr(next_plan.subprocess, "run", start)
    monkeypatch.setattr(choice, "free_card", unreadable)
    return lines, endings


def test_later_attempts_replace_files_that_earlier_ones_saved(started):
    lines, endings = started
    endings += [(1, True), (1, True), (0, False)]
    options = ("--save", "plans", "--vary", "-b {}", "--accumulate", "-a {}")
    assert run_command.run(given(*options, "train.py", "-b", "4")) == 0
    # The first run replaces existing files only with --force.
    assert ["--force" in line for line in lines] == [False, True, True]
    assert [line[-4:] for line in lines[1:]] == [["-b", "2", "-a", "2"], ["-b", "1", "-a", "4"]]


def test_each_option_reaches_the_attempts_or_is_for_the_first_process_alone():
    # The attempts inherit the environment, in which --share and --priority write.
    alone = {"fit", "vary", "accumulate", "json", "share", "priority", "no_color"}
    script = {"is_module", "script", "arguments", "command", "run"}
    options = vars(given("train.py")).keys() - script - alone
    assert options == {*next_plan._VALUES, *next_plan._SWITCHES}


@pytest.mark.parametrize("further", [[], ["--accumulate", "-a {}"]])
def test_only_with_accumulate_the_batch_shrinks(further, started, capsys):
    started[1].append((0, False))
    assert run_command.run(given("--vary", "-b {}", *further, "train.py", "-b", "4")) == 0
    said = "without --accumulate the batch stays as it is" in capsys.readouterr().err
    assert said == (not further)


@pytest.mark.parametrize(("returned", "code"), [(0, 0), (5, 5), (-9, 137)])
def test_the_exit_code_is_that_of_the_last_run(returned, code, started):
    started[1].append((returned, False))
    assert run_command.run(given("train.py")) == code


def test_it_begins_with_what_fits(started, monkeypatch):
    lines, endings = started
    endings.append((0, False))
    monkeypatch.setattr(choice, "free_card", lambda: find("16GiB"))
    monkeypatch.setattr(choice, "first_that_fits", lambda attempts, *_: len(attempts) - 1)
    changed = Attempt(("train.py",), "recompute:900B", "recomputed activations within 900 B")
    monkeypatch.setattr(choice, "with_least_recomputation", lambda *_: changed)
    assert run_command.run(given("train.py")) == 0
    assert lines[0][-4:] == ["-m", "pgmo.fit.next_plan.changed", "recompute:900B", "train.py"]


def test_options_of_fit_belong_before_the_script(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text("print('ran')")
    assert main(["run", str(script), "--fit"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--fit is an option of pgmo run and belongs before the script" in said.err


@pytest.mark.parametrize("option", ["--vary", "--accumulate"])
def test_vary_and_accumulate_need_fit(option, tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text("print('ran')")
    assert main(["run", option, "-b {}", str(script)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "is used only with --fit" in said.err
