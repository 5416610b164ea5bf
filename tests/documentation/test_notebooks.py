"""The notebooks and the scripts beside them say the same. `make test` also executes them."""

from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext")

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def test_every_notebook_has_its_script() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES
    assert NAMES[0] == "01_quickstart"


@pytest.mark.parametrize("name", NAMES)
def test_notebook_and_script_are_in_step(name: str) -> None:
    script = jupytext.read(FOLDER / f"{name}.py")
    notebook = jupytext.read(FOLDER / f"{name}.ipynb")
    assert [(cell.cell_type, cell.source) for cell in script.cells] == [
        (cell.cell_type, cell.source) for cell in notebook.cells
    ], "run make notebooks"
    assert notebook.metadata["jupytext"]["formats"] == "ipynb,py:percent"


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_kept_without_outputs(name: str) -> None:
    """So that a change of them can be read, and nothing of whoever ran them is kept."""
    for cell in jupytext.read(FOLDER / f"{name}.ipynb").cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
