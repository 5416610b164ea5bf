"""The attack notices every broken engine, and finds nothing wrong with the sound one."""

import re
from pathlib import Path

import pytest

from tests.native.make import BUILT, NATIVE, make, needs_compiler, run


def names(file: str) -> list[str]:
    return re.findall(r"^([a-z_]+) ", (NATIVE / file).read_text(), re.MULTILINE)


MUTANTS = names("mutants.txt")
PAGE_MUTANTS = names("mutants_pages.txt")

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def mutants() -> Path:
    make("build/native/mutants")
    return BUILT / "mutants"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_oracle_notices_a_broken_engine(mutants: Path, mutant: str) -> None:
    ended = run("sh", "tests/native/mutants.sh", "run", str(mutants), mutant)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "VIOLATION" in ended.stdout


@pytest.fixture(scope="module")
def page_mutants() -> Path:
    make("build/native/mutants_pages")
    return BUILT / "mutants_pages"


@pytest.mark.parametrize("mutant", PAGE_MUTANTS)
def test_oracle_notices_broken_pages(page_mutants: Path, mutant: str) -> None:
    ended = run("sh", "tests/native/mutants.sh", "run", str(page_mutants), mutant, "pages")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "VIOLATION" in ended.stdout


def test_pages_are_sound_where_no_mutant_is_chosen(page_mutants: Path) -> None:
    ended = run(str(page_mutants), "--events", "600000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no violation" in ended.stdout


def test_the_engine_is_sound_where_no_mutant_is_chosen(mutants: Path) -> None:
    ended = run(str(mutants), "--events", "5000000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no violation" in ended.stdout


@pytest.mark.parametrize("change", ["s/bool no_such_function/BROKEN/", "s/bool overlaps.*/&/"])
def test_a_mutant_that_changes_nothing_is_found_out(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "tests" / "native"
    folder.mkdir(parents=True)
    (tmp_path / "csrc").symlink_to(NATIVE.parents[1] / "csrc")
    (folder / "mutants.sh").symlink_to(NATIVE / "mutants.sh")
    (folder / "mutants.txt").write_text(f"# broken\nharmless replay/late_set.hpp {change}\n")
    ended = run("sh", str(folder / "mutants.sh"), "build", str(tmp_path / "program"))
    assert ended.returncode != 0
    assert "out of date" in ended.stderr
