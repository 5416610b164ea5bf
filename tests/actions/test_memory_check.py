"""Tests of the GitHub action that checks memory, on a repository with two commits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgmo.profiler.profile import Profile

yaml = pytest.importorskip("yaml")

from tests.actions.local_runner import run_action  # noqa: E402  (needs yaml)

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "actions" / "memory-check" / "action.yml"
SIZES = {"base": 256, "head": 320}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return the folder of a program in a repository with two commits."""
    folder = tmp_path_factory.mktemp("repository")

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    package = folder / "package"
    package.mkdir()
    for name, size in SIZES.items():
        profile = Profile.from_columns(size=[size], start=[0], end=[1], ticks=1)
        profile.save(package / "net.pgmoprof")
        git("add", ".")
        git("commit", "-qm", name)
        git("tag", name)
    return package


@pytest.fixture
def programs(tmp_path):
    """Return a PATH with the `pgmo` and `python` of the tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, command in (("python", sys.executable), ("pgmo", f"{sys.executable} -m pgmo")):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def run(repository, tmp_path, programs, **inputs):
    inputs = {"record": 'cp net.pgmoprof "$PGMO_PROFILES"', **inputs}
    return run_action(ACTION, inputs, repository, tmp_path / "temp", programs)


@pytest.fixture(autouse=True)
def this_pgmo(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_more_memory_fails_with_a_table(repository, tmp_path, programs):
    ran = run(repository, tmp_path, programs, base="base")
    assert ran.exit_code == 3, ran.log
    assert "1 of 1 programs exceeds the earlier state by more than" in ran.summary
    assert "256 B → 320 B" in ran.summary
    assert Path(ran.outputs["table"]).read_text() == ran.summary


def test_it_may_be_used_twice_in_a_job(repository, tmp_path, programs):
    for name in ("one", "two"):
        profile = tmp_path / f"{name}.pgmoprof"
        Profile.from_columns(size=[8], start=[0], end=[1], ticks=1).save(profile)
        record = f'cp {profile} "$PGMO_PROFILES"'
        ran = run(repository, tmp_path, programs, base="base", record=record)
        assert ran.exit_code == 0, ran.log
        assert f"| `{name}` |" in Path(ran.outputs["table"]).read_text()
    assert "`one`" not in Path(ran.outputs["table"]).read_text()


def test_the_first_push_of_a_branch_is_compared_with_where_it_began(repository, tmp_path, programs):
    git = ["git", "-C", str(repository)]
    subprocess.run([*git, "update-ref", "refs/remotes/origin/trunk", "base"], check=True)
    record = 'git log -1 --format=%s > "$PGMO_PROFILES/../$(basename "$PGMO_PROFILES").txt"'
    inputs = {"record": record, "base": "0" * 40}
    event = {"repository.default_branch": "trunk"}
    run_action(ACTION, inputs, repository, tmp_path / "temp", programs, event)
    assert (tmp_path / "temp" / "pgmo" / "base.txt").read_text() == "base\n"


def test_the_same_commit_passes(repository, tmp_path, programs):
    ran = run(repository, tmp_path, programs, base="head")
    assert ran.exit_code == 0, ran.log
    assert "No program exceeds its earlier state" in ran.summary


def test_a_command_that_fails_at_the_head_fails(repository, tmp_path, programs):
    ran = run(repository, tmp_path, programs, base="base", record="exit 5")
    assert ran.exit_code == 5
    assert ran.summary == ""


def test_inputs_are_data(repository, tmp_path, programs):
    mark = tmp_path / "mark"
    ran = run(repository, tmp_path, programs, base="head", tolerance=f'1%"; touch {mark}; "')
    assert ran.exit_code == 2
    assert not mark.exists()
