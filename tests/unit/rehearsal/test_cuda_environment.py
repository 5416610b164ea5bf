"""Tests of environments in which pip installs a CUDA build of torch from a made-up wheel."""

import importlib.metadata
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pgmo
from pgmo.cli.main import main
from pgmo.errors import RehearsalError
from pgmo.fit import ask
from pgmo.rehearsal import cuda_environment
from pgmo.rehearsal.cuda_environment import make_environment
from pgmo.rehearsal.environment import of_python
from pgmo.rehearsal.library import find_torch_build
from tests.unit.fit.answers import pretend

CUDA = "lib/libtorch_cuda.so"


def release() -> str:
    """Return the release of the installed torch, or "2.13.0" without one."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "2.13.0"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, the only source from which pip may install."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [one for one in os.environ if one.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def add_torch(wheels: Path, *more: str) -> None:
    """Add a wheel of a made-up torch that has further files."""
    about = f"torch-{release()}.dist-info"
    texts = {
        "torch/__init__.py": "",
        "torch/version.py": f"__version__ = '{release()}+cu130'\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {release()}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
        **{f"torch/{name}": "" for name in more},
    }
    with zipfile.ZipFile(wheels / f"torch-{release()}-py3-none-any.whl", "w") as wheel:
        for name, text in texts.items():
            wheel.writestr(name, text)


def test_torch_is_its_own_and_all_else_is_shared(tmp_path: Path, wheels: Path) -> None:
    add_torch(wheels, CUDA)
    folder = tmp_path / "cuda"
    messages: list[str] = []
    python = make_environment(folder, messages.append)
    assert "several gigabytes" in messages[0]
    assert find_torch_build(python).version == f"{release()}+cu130"
    code = "import json, numpy, torch; print(json.dumps([numpy.__file__, torch.__file__]))"
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    numpy_file, torch_file = json.loads(shown.stdout)
    assert numpy_file == np.__file__
    assert Path(torch_file).is_relative_to(folder)
    assert make_environment(folder, messages.append) == python  # the environment exists already
    assert len(messages) == 1


def test_a_cpu_build_is_removed(tmp_path: Path, wheels: Path) -> None:
    add_torch(wheels)
    with pytest.raises(RehearsalError, match="PIP_INDEX_URL"):
        make_environment(tmp_path / "cuda", lambda _: None)
    assert not (tmp_path / "cuda").exists()


def test_a_command_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RehearsalError, match="/bin/false -I -m venv"):
        make_environment(tmp_path / "cuda", lambda _: None)
    assert not (tmp_path / "cuda").exists()


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RehearsalError, match="has no CUDA build of torch"):
        make_environment(tmp_path, lambda _: None)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_command_says_how_rehearsals_find_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cuda_environment, "make_environment", lambda *_: "/made/bin/python")
    assert main(["fit", "--environment", "made"]) == 0
    assert "export PGMO_REHEARSAL_PYTHON=/made/bin/python" in capsys.readouterr().err
    assert main(["fit", "--environment", "made", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"python": "/made/bin/python"}


def test_a_script_is_rehearsed_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch)
    asked = []
    build = ask.find_torch_build("python")
    monkeypatch.setattr(ask, "find_torch_build", lambda python: asked.append(python) or build)
    monkeypatch.setattr(cuda_environment, "make_environment", lambda *_: "/made/bin/python")
    script = tmp_path / "train.py"
    script.write_text("")
    words = ["--card", "1GiB", "--vary", "--batch-size {}", "--value", "4", str(script)]
    assert main(["fit", "--environment", "made", *words]) == 0
    assert asked == ["/made/bin/python"]
    assert main(["fit", "--environment", "made", "--python", "python", str(script)]) == 2
    assert "--environment and --python both choose the Python" in capsys.readouterr().err


def test_a_named_python_runs_its_own_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder in which pgmo is installed contains another torch, too."""
    packages = tmp_path / "site-packages"
    for name in ("pgmo", "torch"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("")
    monkeypatch.setattr(pgmo, "__file__", str(packages / "pgmo/__init__.py"))
    assert of_python(tmp_path, packages / "torch", {}) == {}
    for _ in range(2):  # once for each rank
        path = of_python(tmp_path, tmp_path / "other/site-packages/torch", {})["PYTHONPATH"]
    assert [one.resolve() for one in Path(path).iterdir()] == [packages / "pgmo"]
