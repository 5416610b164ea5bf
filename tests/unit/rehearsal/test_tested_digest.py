"""Checks which changes make .ci/run repeat the tests on the stub."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FAKECUDA = ROOT / "tests" / "fakecuda" / "fakecuda.mk"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in (
        "pgmo/session.py",
        "csrc/engine.hpp",
        "bench/results/memory.json",
        "bench/README.md",
        "examples/resnet.py",
        "tests/conftest.py",
        "docs/guides/recipes.md",
        "pyproject.toml",
        "setup.py",
        "constraints.txt",
        "conftest.py",
    ):
        write(tmp_path / name, "before")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def digest(root: Path) -> str:
    command = ["make", "-s", "-f", str(FAKECUDA), "stub-digest"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["bench/results/memory.json", "bench/README.md", "pgmo/_core.so"])
def test_results_and_built_files_do_not_matter(sources: Path, name: str) -> None:
    before = digest(sources)
    write(sources / name, "after")
    assert digest(sources) == before


@pytest.mark.parametrize(
    "name",
    ["pgmo/session.py", "csrc/engine.hpp", "tests/new.py", "docs/guides/recipes.md", "setup.py"],
)
def test_sources_matter(sources: Path, name: str) -> None:
    before = digest(sources)
    write(sources / name, "after")
    assert digest(sources) != before
