"""What notebooks show: bounded, escaped, without scripts."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import pgmo
from pgmo.display import NotebookFrame
from pgmo.profiler.profile import ProfileMeta
from pgmo.profiler.tag import Tag

EVIL = "<script>alert(1)</script>&\"'"


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.closed.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def large(count: int) -> pgmo.Profile:
    """All kinds of blocks: some wrap, some are doubly live."""
    random = np.random.default_rng(0)
    start = np.arange(count)
    return pgmo.Profile.from_columns(
        size=random.integers(1, 2**20, count),
        start=start,
        end=start + random.integers(1, count + count // 10 + 1, count),
        ticks=count,
        tag=random.integers(-1, 4, count),
        tags=tuple(Tag("", "", name) for name in ("forward", "backward", "optimizer", EVIL)),
        meta=ProfileMeta(model=EVIL, device=EVIL, framework=EVIL),
    )


@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_html_is_small_balanced_and_escaped(count: int) -> None:
    profile = large(count)
    for shown in (profile, pgmo.plan(profile, effort="fast")):
        text = shown._repr_html_()
        assert len(text) < 100_000
        tags = _Tags(text)
        assert "script" not in tags.opened
        assert sorted(tags.opened) == sorted(tags.closed)
        assert EVIL in tags.text


def test_text_takes_the_colour_of_the_theme() -> None:
    """Colours are given to shapes only, never to text or to what lies behind it."""
    for shown in (large(50), pgmo.plan(large(50))):
        text = shown._repr_html_()
        assert not re.search(r"<text[^>]*fill=\"#", text)
        assert "background" not in text
        assert text.count('style="color:') == text.count("&#9632;")


def test_a_profile_shows_its_figures() -> None:
    profile = pgmo.Profile.from_columns(size=[2**20, 2**10], start=[0, 1], end=[2, -1], ticks=2)
    shown = _Tags(profile._repr_html_()).text
    for figure in ("2 in 2 requests", "1.00 MiB, no arena can be smaller", "1 persistent"):
        assert figure in shown


def test_a_plan_says_what_is_inside_and_what_is_left_out() -> None:
    profile = large(3000)
    plan = pgmo.plan(profile, effort="fast")
    shown = _Tags(plan._repr_html_()).text
    assert "3,000 of 3,000 planned; the 1,200 largest are drawn" in shown
    assert f"{100 * plan.gap:.2f} % above the max load" in shown


def test_a_frame_holds_the_page_as_it_is() -> None:
    page = f"<!doctype html><title>{EVIL}</title>"
    text = NotebookFrame(page, height=50)._repr_html_()
    (source,) = re.findall(r'srcdoc="([^"]*)"', text)
    assert html.unescape(source) == page
    assert 'sandbox="allow-scripts' in text
    assert "allow-same-origin" not in text


def test_show_has_the_whole_report() -> None:
    pytest.importorskip("pgmo.report.page.html")
    profile = large(100)
    plan = pgmo.plan(profile)
    assert profile.show(plan).page == profile.show(plan).page
    for frame in (profile.show(plan, height=300), plan.show(height=300)):
        assert frame.page.startswith("<!doctype html>")
        assert frame.height == 300
