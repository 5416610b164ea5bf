"""The recipes of the documentation run in this environment, which has their libraries."""

from pathlib import Path

import pytest

from tests.documentation.examples import run_page
from tests.fakecuda.programs import ROOT


def test_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(str(ROOT / "docs/guides/recipes.md")) == 6
