"""Tests of programs that a child process is to run."""

import os
import sys

import pytest

from pgmo.runner.program import Program


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["train.py", "--lr", "1"], Program("train.py", False, ("--lr", "1"))),
        (["-m", "package.train", "-m"], Program("package.train", True, ("-m",))),
    ],
)
def test_commands_of_scripts_and_modules(command, program):
    assert Program.of(command) == program


def test_a_module_may_be_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["elsewhere"])
    Program.of(["train.py"])
    assert sys.path == ["elsewhere"]
    Program.of(["-m", "train"])
    assert sys.path == [os.getcwd(), "elsewhere"]
