"""The README as a package index shows it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELATIVE = re.compile(r"\]\((?!https://|#)")


@pytest.fixture
def index_page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    yield __import__("index_page")
    sys.modules.pop("index_page")


def test_all_links_are_absolute_where_the_sources_can_be_read(index_page):
    text = index_page.readme_for_index((ROOT / "README.md").read_text(), "https://example.org/p")
    assert not RELATIVE.search(text)
    assert "](https://example.org/p/raw/HEAD/docs/report.png)" in text


def test_elsewhere_their_text_stays(index_page):
    text = index_page.readme_for_index((ROOT / "README.md").read_text(), "")
    assert not RELATIVE.search(text)
    assert "![" not in text
    assert index_page.project_urls("") == {}
