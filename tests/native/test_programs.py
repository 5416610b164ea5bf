"""Runs each native program, the attacks in full length."""

import re
from pathlib import Path

import pytest

from tests.native.make import BUILT, NATIVE, make, needs_compiler, run

PROGRAMS = sorted(path.stem for path in NATIVE.rglob("*.cpp"))
LEAST_EVENTS = 10_000_000

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def built() -> Path:
    make("native-release")
    return BUILT / "release"


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_passes(built: Path, program: str) -> None:
    ended = run(str(built / program))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    if program == "fuzz_replay":
        events = re.search(r"seed 1: (\d+) events", ended.stdout)
        assert events is not None, ended.stdout
        assert int(events[1]) >= LEAST_EVENTS


@pytest.mark.slow
def test_ten_thousand_forks(built: Path) -> None:
    ended = run(str(built / "fuzz_forks"), "--seed", "2", "--events", "10000")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("program", ["fuzz_replay", "fuzz_threads"])
def test_attack_passes_with_the_engine_checking_itself(built: Path, program: str) -> None:
    ended = run(str(built / program), "--seed", "3", "--events", "2000000", PGMO_CHECK="1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
