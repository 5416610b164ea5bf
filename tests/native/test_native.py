"""Builds the engine's native tests with make and runs each program, the attacks in full length."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "tests" / "native"
MAKE = ["make", "--no-print-directory", "-f", "tests/native/native.mk"]
PROGRAMS = sorted(path.stem for path in NATIVE.glob("*.cpp"))
MUTANTS = re.findall(r"^([a-z_]+) ", (NATIVE / "mutants.txt").read_text(), re.MULTILINE)
LEAST_EVENTS = 10_000_000

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or shutil.which(os.environ.get("CXX", "g++")) is None,
    reason="the native tests need make and a C++20 compiler (g++, or the one CXX names)",
)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def built() -> Path:
    made = run(*MAKE, "-j2", "native-release")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "warning" not in made.stderr, made.stderr
    return ROOT / "build" / "native" / "release"


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_passes(built: Path, program: str) -> None:
    ended = run(str(built / program))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_attack_is_as_long_as_promised(built: Path) -> None:
    ended = run(str(built / "fuzz_replay"), "--seed", "7")
    events = re.search(r"seed 7: (\d+) events", ended.stdout)
    assert events is not None, ended.stdout
    assert int(events[1]) >= LEAST_EVENTS


@pytest.mark.parametrize("program", ["fuzz_replay", "fuzz_threads"])
def test_attack_passes_with_the_engine_checking_itself(built: Path, program: str) -> None:
    ended = run(str(built / program), "--seed", "3", "--events", "2000000", PGMO_CHECK="1")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("mutant", MUTANTS)
def test_oracle_notices_a_broken_engine(mutant: str) -> None:
    program = f"build/native/mutants/{mutant}"
    made = run(*MAKE, program)
    assert made.returncode == 0, made.stdout + made.stderr
    ended = run("sh", "tests/native/mutant.sh", "run", mutant, program)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "VIOLATION" in ended.stdout
