"""Tests that the notebooks equal their scripts, and run."""

import os
from pathlib import Path

import pytest

from tests import forked

jupytext = pytest.importorskip("jupytext")

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


IN_JUPYTER = ("04_", "05_")
"""Beginnings of the names of notebooks that `make test` executes; `make test-all` executes all."""


@pytest.mark.parametrize("name", [one for one in NAMES if not one.startswith(IN_JUPYTER)])
def test_scripts_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    settings = {"MPLBACKEND": "agg", "PYTHONPATH": str(FOLDER.parent)}
    script = str(FOLDER / f"{name}.py")
    ended = forked.run_command(tmp_path, script, environment=os.environ | settings)
    assert ended.exit_code == 0, ended.errors


def test_every_notebook_has_its_script() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES
    assert NAMES[0] == "01_quickstart"


@pytest.mark.parametrize("name", NAMES)
def test_notebook_and_script_are_in_step_without_outputs(name: str) -> None:
    script = jupytext.read(FOLDER / f"{name}.py")
    notebook = jupytext.read(FOLDER / f"{name}.ipynb")
    assert [(cell.cell_type, cell.source) for cell in script.cells] == [
        (cell.cell_type, cell.source) for cell in notebook.cells
    ], "run make notebooks"
    assert notebook.metadata["jupytext"]["formats"] == "ipynb,py:percent"

    # Without outputs, changes can be read, and no data of the machine is kept.
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
