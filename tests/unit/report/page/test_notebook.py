"""What notebooks show of profiles and plans: the report in a sandbox."""

import html
import re

import pgmo
from pgmo.display import NotebookFrame
from tests.unit.report.profiles import small_profile

EVIL = "<script>alert(1)</script>&\"'"


def test_a_frame_holds_the_page_as_it_is() -> None:
    page = f"<!doctype html><title>{EVIL}</title>"
    text = NotebookFrame(page, height=50)._repr_html_()
    (source,) = re.findall(r'srcdoc="([^"]*)"', text)
    assert html.unescape(source) == page
    assert 'sandbox="allow-scripts' in text
    assert "allow-same-origin" not in text


def test_show_has_the_whole_report() -> None:
    profile = small_profile()
    plan = pgmo.plan(profile)
    assert profile.show(plan).page == profile.show(plan).page
    for frame in (profile.show(plan, height=300), plan.show(height=300)):
        assert frame.page.startswith("<!doctype html>")
        assert frame.height == 300
