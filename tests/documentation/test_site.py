"""Tests that the site is built without warnings, and that its internal links have targets."""

import importlib.util
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(target)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return target


class _Page(HTMLParser):
    """A parser of the links, the sources and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.sources: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and value and tag == "a":
                self.targets.add(value)
            elif value and (name == "src" or (name == "href" and tag == "link")):
                self.sources.add(value)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text()) for path in site.rglob("*.html")}


def test_links_within_the_site_lead_somewhere(pages: dict[Path, _Page]) -> None:
    assert len(pages) > 10
    broken = []
    for path, page in pages.items():
        for link in page.targets:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else set()
            missing = parts.fragment and unquote(parts.fragment) not in anchors
            if not target.exists() or missing:
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, _Page]) -> None:
    for path, page in pages.items():
        remote = [source for source in page.sources if urlsplit(source).netloc]
        assert not remote, path


def test_the_reference_has_every_public_name(pages: dict[Path, _Page], site: Path) -> None:
    import pgmo

    anchors = pages[site / "reference" / "api.html"].anchors
    for name in set(pgmo.__all__) - {"__version__"}:
        assert {f"pgmo.{name}", f"pgmo.errors.{name}"} & anchors, name


def test_the_reference_has_every_command_and_option(site: Path) -> None:
    from pgmo.cli.catalog import COMMANDS

    text = (site / "reference" / "cli.html").read_text()
    for command in COMMANDS:
        assert f'id="pgmo-{command}"' in text
    assert "--time-limit" in text


def test_the_pictures_show_what_the_packer_does(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.pictures().items():
        assert (module.FOLDER / name).read_text() == text, "run python docs/pictures.py"


def test_drawings_become_literal_and_sections_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from extensions.docstrings import literal_drawings

    given = ["Time.", "", "    |--|", "    |==|", "", "Args:", "    a: one", "        two"]
    directive = [".. code-block:: text", ""]
    assert literal_drawings(given) == ["Time.", "", *directive, *given[2:]]


def test_links_to_files_that_are_no_pages_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from extensions.repository_links import name_files

    page = ROOT / "docs" / "guides" / "first_plan.md"
    given = (
        "[one](../../README.md#use) [two](../limits.md) [three](../../nowhere.md) ![p](../a.svg)"
    )
    assert name_files(given, page, ROOT / "docs") == (
        "one (`README.md`) [two](../limits.md) [three](../../nowhere.md) ![p](../a.svg)"
    )


def test_types_of_arrays_are_short(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text()
    assert "ArrayLike" in text
    assert "NDArray" in text
    assert "_NestedSequence" not in text
