"""Fixtures: a browser, and reports in it."""

from pathlib import Path

import pytest

from tests.unit.report.browser import Report, open_browser
from tests.unit.report.profiles import large_profile, small_profile, write_report


@pytest.fixture(scope="module")
def browser():
    with open_browser() as started:
        yield started


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_report(small_profile(), tmp_path_factory.mktemp("small") / "report.html")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_report(large_profile(), tmp_path_factory.mktemp("large") / "report.html")


@pytest.fixture
def open_report(browser, tmp_path):
    """Return a function that opens a page, or the report of a profile; none may have problems."""
    opened = []

    def open_one(what, view="", **options):
        path = what if isinstance(what, Path) else write_report(what, tmp_path / "report.html")
        opened.append(Report(browser, path, view, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        assert one.problems == []
        assert len(one.requested) == 1, "the page loaded something"
        one.close()


@pytest.fixture
def report(open_report, small):
    return open_report(small)
