"""Fixtures: a browser, and reports in it."""

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
def report(browser, small):
    opened = Report(browser, small)
    yield opened
    assert opened.problems == []
    assert len(opened.requested) == 1, "the page loaded something"
    opened.close()
