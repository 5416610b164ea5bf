import json

import pytest

import pgmo
from pgmo.cli.main import main
from pgmo.profiler.profile import Profile

FACTORY = """
import torch
def make():
    return torch.nn.Linear(8, 1), (torch.randn(4, 8),)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, which has one input of each kind for commands."""
    monkeypatch.chdir(tmp_path)
    profile = Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=3)
    profile.save("net.pgmoprof")
    pgmo.plan(profile).save("net.pgmoplan")
    (tmp_path / "table.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,32\n")
    (tmp_path / "script.py").write_text("print('ran')\n")
    (tmp_path / "factory.py").write_text(FACTORY)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Return a function that runs a command, and returns what it prints on stdout and stderr."""

    def run(*words, code=0):
        assert main(list(map(str, words))) == code
        return capsys.readouterr()

    return run


@pytest.fixture
def printed(run):
    """Return a function that runs a command, and returns what it prints on stdout."""
    return lambda *words: run(*words).out


@pytest.fixture
def reported(run):
    """Return a function that runs a command with --json, and returns the object."""

    def reported(command, *words, code=0):
        return json.loads(run(command, "--json", *words, code=code).out)

    return reported


@pytest.fixture
def refused(run):
    """Return a function that runs a command, which fails, and returns what it prints on stderr."""
    return lambda *words, code=1: run(*words, code=code).err
