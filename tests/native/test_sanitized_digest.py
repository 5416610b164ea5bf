"""Checks that the digest of sanitized sources depends on code, but not on comments or layout."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.make import ROOT

HEADER = "csrc/engine/pgmo_engine.h"
SOURCE = "csrc/engine/engine.cpp"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for folder in ("csrc", "tests/native"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def digest(root: Path) -> str:
    command = ["make", "-s", "-f", "tests/native/native.mk", "sanitized-digest"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_comments_do_not_change_the_digest(sources: Path) -> None:
    before = digest(sources)
    replace(sources / HEADER, "/* Free a block.", "/* Frees a\n   * block **.")
    replace(sources / SOURCE, "bool ours = false;", "bool ours  = false;  // another comment")
    assert digest(sources) == before


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (HEADER, "PGMO_SLOT = 1", "PGMO_SLOT = 2"),
        (SOURCE, "bool ours = false;", "bool ours = true;"),
        ("tests/native/native.mk", "SANITIZERS = address thread", "SANITIZERS = address"),
        ("tests/native/mutants/engine.txt", "blind_late_set ", "other_late_set "),
    ],
)
def test_code_changes_the_digest(sources: Path, path: str, old: str, new: str) -> None:
    before = digest(sources)
    replace(sources / path, old, new)
    assert digest(sources) != before
