"""Runs each native program: tests, and attacks of a million events; slow tests run full attacks."""

import re
from pathlib import Path

import pytest

from tests.native.make import BUILT, NATIVE, make, needs_compiler, run

PROGRAMS = {path.stem for path in NATIVE.rglob("*.cpp")}
TESTS = sorted(name for name in PROGRAMS if name.startswith("test_"))
ATTACKS = sorted(PROGRAMS - set(TESTS))
QUICK, QUICK_FORKS = 1_000_000, 500
FULL, FULL_FORKS = 10_000_000, 10_000

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def built() -> Path:
    make("native-release")
    return BUILT / "release"


@pytest.mark.parametrize("program", TESTS)
def test_program_passes(built: Path, program: str) -> None:
    ended = run(str(built / program))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def attack(program: Path, events: int, seed: int, **environment: str) -> None:
    """Run an attack, which must make this many events and find no violation."""
    ended = run(str(program), "--seed", str(seed), "--events", str(events), **environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    made = re.findall(r"^seed \d+: (\d+) (?:events|forks)", ended.stdout, re.MULTILINE)
    assert sum(int(one) for one in made) >= events, ended.stdout


@pytest.mark.parametrize("program", ATTACKS)
def test_attack_finds_nothing(built: Path, program: str) -> None:
    attack(built / program, QUICK_FORKS if program == "fuzz_forks" else QUICK, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("program", ATTACKS)
def test_long_attack_finds_nothing(built: Path, program: str) -> None:
    attack(built / program, FULL_FORKS if program == "fuzz_forks" else FULL, seed=2)


@pytest.mark.parametrize("program", ["fuzz_replay", "fuzz_threads"])
def test_attack_finds_nothing_with_the_engine_checking_itself(built: Path, program: str) -> None:
    attack(built / program, QUICK, seed=3, PGMO_CHECK="1")
