"""Tests that links between the repository's pages have targets, on GitHub and on the site."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "bench").glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
LINK = re.compile(r"!?\[[^\]]*\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]*))?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).strip().lower() for one in headings)
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        path = (page.parent / unquote(target)).resolve() if target else page
        if not path.exists():
            broken.append(target)
        elif anchor and path.suffix == ".md" and unquote(anchor) not in anchors(path):
            broken.append(f"{target}#{anchor}")
    assert not broken


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One `two`\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#one-two) ![b](none.png) [c](other.md#three)\n")
    with pytest.raises(AssertionError) as caught:
        test_links_lead_somewhere(page)
    assert "none.png" in str(caught.value)
    assert "other.md#three" in str(caught.value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_an_index_without_pgmo(page: Path) -> None:
    assert not re.search(r"pip install [^\n`#]*(?<![\w/.-])'?pgmo\b(?!-)", page.read_text())
