"""Tests of the display in notebooks, in a headless Chromium."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pgmo
from tests.unit.report.browser import open_browser
from tests.unit.report.profiles import small_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def page() -> "Iterator[Page]":
    with open_browser() as browser:
        yield browser.new_page(viewport={"width": 1000, "height": 1200})


def show(page: "Page", folder: Path, fragment: str) -> list[str]:
    """Open a page like that of a notebook, and return a list of the errors in its console."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    path = folder / "notebook.html"
    path.write_text(f"<meta charset=utf-8><body style='background:#111;color:#eee'>{fragment}")
    page.goto(path.as_uri())
    return problems


def test_the_report_works_inside_of_its_sandbox(page: "Page", tmp_path: Path) -> None:
    profile = small_profile()
    problems = show(page, tmp_path, profile.show(pgmo.plan(profile))._repr_html_())
    inside = page.frame_locator("iframe")
    inside.locator("html[data-painted]").wait_for(timeout=60_000)
    assert inside.locator("#blocks").bounding_box()["width"] > 300
    assert not problems
    reach = "() => { try { return !!parent.document.body } catch { return false } }"
    assert page.frames[-1].evaluate(reach) is False
