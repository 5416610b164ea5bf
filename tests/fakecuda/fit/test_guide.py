"""The code blocks of the guide run unchanged; they need a CUDA build of PyTorch."""

from pathlib import Path

import pytest

from tests.documentation.examples import run_page
from tests.fakecuda.programs import ROOT


@pytest.mark.slow  # other tests of this folder run the guide's commands
def test_will_it_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run_page(str(ROOT / "docs/guides/will_it_fit.md")) > 3
