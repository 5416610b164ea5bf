"""Tests of search, colours and views of the report, in a headless Chromium."""

import pytest

from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.step_profile import step_profile
from tests.unit.recompute.graphs import chain
from tests.unit.report.browser import Report
from tests.unit.report.pointing import click, point_at
from tests.unit.report.profiles import HOSTILE, write_report


def matches(report: Report, query: str) -> str:
    report.page.fill("#search", query)
    return report.text("#found").partition(";")[0]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("conv", "3 blocks, 16.0 KiB"),
        (">= 6 KiB", "2 blocks, 14.0 KiB"),
        ("conv >= 6KiB", "2 blocks, 14.0 KiB"),
        ("< 1k", "1 block, 512 B"),
        ("op:addmm", "2 blocks, 4.50 KiB"),
        ("phase:backward", "2 blocks, 8.00 KiB"),
        ("net.py:9", "2 blocks, 4.50 KiB"),
        ("is:persistent", "1 block, 2.00 KiB"),
        ("is:wrapping", "2 blocks, 4.50 KiB"),
        ("is:varying", "1 block, 4.00 KiB"),
        ("at:2", "5 blocks, 16.5 KiB"),
        ("life > 6", "3 blocks, 6.50 KiB"),
        ("nowhere", "0 blocks, 0 B"),
        ("op:convolution\tphase:backward", "2 blocks, 8.00 KiB"),  # pasted from a table
        (">= 6,144", "2 blocks, 14.0 KiB"),  # written with a thousands separator
    ],
)
def test_search_counts_what_it_finds(report, query, found):
    assert matches(report, query) == found


def test_blocks_that_do_not_match_are_dimmed(report):
    x, y = point_at(report, 0)
    before = report.colour_at(x + 3, y + 3)
    matches(report, "phase:optimizer")
    report.settle()
    after = report.colour_at(x + 3, y + 3)
    assert sum(after) > sum(before) + 60


def test_enter_steps_through_what_was_found(report):
    matches(report, "conv")
    seen = []
    for _ in range(4):
        report.press("Enter")
        seen.append(report.view()["pin"])
    assert seen == ["0", "2", "5", "0"]


def test_a_legend_entry_shows_its_blocks_only(report):
    entries = report.page.locator("#legend button")
    x, y = point_at(report, 0)
    before = report.colour_at(x + 3, y + 3)
    head = entries.filter(has_text="Net.head")
    head.click()
    report.settle()
    assert head.get_attribute("aria-pressed") == "true"
    assert report.colour_at(x + 3, y + 3) != before
    head.click()
    report.settle()
    assert report.colour_at(x + 3, y + 3) == before


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("phase", ["forward", "backward", "optimizer"]),
        ("op", ["aten.convolution", "aten.addmm", "aten.mul"]),
        ("file", ["net.py:7 in forward"]),
        ("size", ["512 B and more", "8.00 KiB and more"]),
    ],
)
def test_colours_show_what_was_chosen(report, by, names):
    report.page.select_option("#by", by)
    legend = report.text("#legend")
    for name in names:
        assert name in legend
    assert report.view().get("by") == by


def test_recomputed_blocks_have_their_own_colour(open_report, tmp_path):
    schedule = simulate(chain(8, size=4096), {1, 2, 4})
    path = write_report(step_profile(schedule, model="Net"), tmp_path / "report.html")
    opened = open_report(path, "#by=phase")
    assert opened.text("#legend").split()[:1] == ["forward"]
    entry = opened.page.locator("#legend").get_by_text("recompute", exact=True)
    assert entry.count() == 1
    matches(opened, "phase:recompute")
    assert opened.text("#found").startswith("3 blocks, 12.0 KiB")


def test_pytorchs_places_can_be_seen_instead(report):
    planned = report.page.evaluate("document.getElementById('blocks').toDataURL()")
    report.press("v")
    assert report.view()["mode"] == "placed"
    assert report.number("seen") == 10  # with the persistent block
    assert report.page.evaluate("document.getElementById('blocks').toDataURL()") != planned
    report.press("v")
    assert report.number("seen") == 9


def test_two_turns_show_wrapping_blocks_whole(report):
    report.press("w")
    assert report.view()["turns"] == "2"
    # Five plain blocks twice, and three parts each of the wrapping and the doubly live one.
    assert report.number("seen") == 16


def test_persistent_blocks_are_shown_if_wanted(report):
    report.page.check("#persistent")
    report.settle()
    assert report.number("seen") == 10


def test_help_opens_and_closes_by_key(report):
    report.page.keyboard.press("?")
    assert "From left to right" in report.text("#help")
    report.page.keyboard.press("Escape")
    assert report.page.locator("#help").is_hidden()


def test_names_are_shown_as_text_whatever_is_in_them(report):
    click(report, 3)
    assert HOSTILE in report.text("#details")
    assert report.page.title() == "small · pgmo report"
