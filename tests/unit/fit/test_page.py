"""Tests that the page is well-formed, self-contained and without scripts, and has the answer."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pgmo.fit.page.page import page
from tests.unit.fit.answers import answer

VOID = {"meta", "br"}


class Nesting(HTMLParser):
    """A check that the elements of a page are closed in the right order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Open an element."""
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element, which must be the last one opened."""
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the page of an answer with all its parts."""
    return page(answer(monkeypatch, what_if=True, cards=(), effective=96, samples=1e6))


def test_it_is_whole_and_runs_nothing(text: str) -> None:
    parser = Nesting()
    parser.feed(text)
    assert parser.open == []
    assert "script" not in parser.tags
    assert not re.search(r"(src|href|url\()\s*=?\s*[\"']?(https?:|//)", text)


def test_names_are_escaped(text: str) -> None:
    assert "small &lt;L4&gt;" in text
    assert "<L4>" not in text


def test_it_says_what_the_answer_says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    found = answer(monkeypatch, what_if=True, cards=(), effective=96, samples=1e6)
    for one in found.alternatives:
        assert f"<td>{one.name}</td>" in text
    for row in found.cards:
        assert f"<td>{row.card.name}</td>" in text


def test_a_plain_answer_leaves_out_what_was_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    text = page(answer(monkeypatch, value=4))
    assert "Other cards" not in text
    assert "What else would help" not in text
    assert "What is alive at the peak" in text


def test_a_job_may_take_less_without_pgmo(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, value=4)
    reserved: dict[str, int] = {"default": 1 << 20, "expandable": 3 << 20, "pgmo": 3 << 20}
    need = replace(found.need, reserved=reserved)
    assert "2.00 MiB less" in page(replace(found, need=need))


def test_numbers_and_their_headings_are_right_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    text = page(answer(monkeypatch, value=4, cards=()))
    assert '<th class="number">usable</th>' in text
    assert "<th>time</th>" in text  # Also without the column of largest values.
    assert "largest --" not in text
