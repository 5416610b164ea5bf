"""Test that pytest collects the tests of every folder."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_no_folder_is_skipped(pytestconfig: pytest.Config) -> None:
    files = [*ROOT.glob("pgmo/**/*.py"), *ROOT.glob("tests/**/test_*.py")]
    names = {part for file in files for part in file.relative_to(ROOT).parent.parts}
    assert "build" in names
    skipped = pytestconfig.getini("norecursedirs")
    assert not [name for name in names if any(fnmatch(name, one) for one in skipped)]
