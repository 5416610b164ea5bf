"""Tests that the code blocks of the documentation and of the README run."""

import gc
import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("sybil")

from pgmo.allocator.adapters.torch_cpu import torch_cpu
from tests.documentation.examples import run_page, skipped_code
from tests.unit.profiler.importers.snapshots import Device, snapshot, train

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = ("guides/graphs_and_pools", "guides/recipes", "guides/will_it_fit")
"""Pages whose code needs the environment of tests/fakecuda, which runs it."""

OF_PACKAGES = ("guides/batch_size", "guides/cupy", "guides/several_jobs")
"""Pages whose code needs packages or devices that not every environment has."""

SLOW = ("guides/several_processes",)
"""Pages whose commands start many processes; tests/integration/ranks runs the same script."""

FILES = {
    "guides/out_of_memory": "examples/attention.py",
    "guides/snapshots": "examples/snapshot.pickle",
}
"""Files of the repository that a page asks its readers to copy."""

BLOCK = re.compile(r"^```(python|console)$", re.MULTILINE)


def names() -> list[str]:
    """Return the names of all pages with code."""
    pages = ROOT / "docs"
    with_code = [path for path in pages.rglob("*.md") if BLOCK.search(path.read_text())]
    return sorted(str(path.relative_to(pages).with_suffix("")) for path in with_code)


@pytest.fixture(scope="module", autouse=True)
def compiled_adapter() -> None:
    """Compile the adapter for the CPU, because a page's command would report its compilation."""
    torch_cpu()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    # An environment that is older than the plug-in has no entry point for it.
    monkeypatch.setenv("PYTEST_PLUGINS", "pgmo.integrations.pytest_plugin")
    gc.collect()  # objects of earlier pages in slots would count
    import torch

    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)
    torch.set_default_device(None)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else [])
        for one in names()
        if one not in ELSEWHERE
    ],
)
def test_page(name: str, folder: Path) -> None:
    page = ROOT / "docs" / f"{name}.md"
    if name in FILES:
        assert FILES[name] in page.read_text()
        shutil.copy(ROOT / FILES[name], folder)
    if run_page(str(page)) == 0:
        assert name in OF_PACKAGES
        pytest.skip("needs packages that are not installed")


@pytest.mark.filterwarnings("ignore:a pgmo session ended without a single iteration")
def test_readme(folder: Path) -> None:
    assert run_page(str(ROOT / "README.md")) == 2


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{one}.md" for one in names())])
def test_a_block_that_is_not_run_says_what_it_needs(name: str) -> None:
    for code in skipped_code((ROOT / name).read_text()):
        assert code.startswith("# Needs "), code


def test_the_snapshot_of_the_guide_is_what_the_tests_make_up() -> None:
    device = Device()
    train(device, 6)
    assert pickle.loads((ROOT / "examples/snapshot.pickle").read_bytes()) == snapshot(device)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed"),
        ("```console\n$ echo one\ntwo\n```\n", "printed"),
        ("```console\n$ echo 1 MiB\n2 MiB\n```\n", "printed"),
        ("<!-- figures vary -->\n```console\n$ echo 1 MiB free\n2 KiB\n```\n", "printed"),
        ("```console\n$ pgmo stats no.pgmoprof\n```\n", "ended with 1"),
        ("```python\nprint(len(loader))\n```\n", "NameError"),
    ],
)
def test_a_wrong_example_is_found(block: str, complaint: str, folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(block)
    with pytest.raises((AssertionError, Exception)) as caught:
        run_page(str(page))
    assert complaint in f"{caught.type.__name__} {caught.value}"


def test_figures_that_vary_may_differ(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text("<!-- figures vary -->\n```console\n$ echo 1.5 MiB, 20 %\n12 KiB, 3.1 %\n```\n")
    assert run_page(str(page)) == 1
