"""Checks that each attack detects its mutants, and finds no violation in unbroken code.

These tests are slow. `make sanitize` also runs all mutants, after each change of native code.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.native.make import BUILT, NATIVE, make, needs_compiler, run

LISTS = NATIVE / "mutants"


def names(kind: str) -> list[str]:
    return re.findall(r"^([a-z_]+) ", (LISTS / f"{kind}.txt").read_text(), re.MULTILINE)


KINDS = ("engine", "pages", "paged", "order", "forks", "graphs", "invariants")
MUTANTS = [(kind, name) for kind in KINDS for name in names(kind)]
EVENTS = {
    "engine": "5000000",
    "pages": "600000",
    "paged": "600000",
    "order": "2000000",
    "forks": "200",
    "graphs": "300000",
    "invariants": "300000",
}

pytestmark = needs_compiler


@cache
def mutants(kind: str) -> Path:
    make(f"build/native/mutants_{kind}")
    return BUILT / f"mutants_{kind}"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mutant"), MUTANTS)
def test_oracle_notices_what_is_broken(kind: str, mutant: str) -> None:
    ended = run("sh", "tests/native/mutants/mutants.sh", "run", str(mutants(kind)), mutant, kind)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "VIOLATION" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_is_sound_where_no_mutant_is_chosen(kind: str) -> None:
    ended = run(str(mutants(kind)), "--events", EVENTS[kind])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no violation" in ended.stdout


@pytest.mark.parametrize("change", ["s/bool no_such_function/BROKEN/", "s/bool overlaps.*/&/"])
def test_a_mutant_that_changes_nothing_is_found_out(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "tests" / "native" / "mutants"
    folder.mkdir(parents=True)
    (tmp_path / "csrc").symlink_to(NATIVE.parents[1] / "csrc")
    (folder / "mutants.sh").symlink_to(LISTS / "mutants.sh")
    (folder / "engine.txt").write_text(f"# broken\nharmless replay/late_set.hpp {change}\n")
    ended = run("sh", str(folder / "mutants.sh"), "build", str(tmp_path / "program"), "engine")
    assert ended.returncode != 0
    assert "out of date" in ended.stderr
