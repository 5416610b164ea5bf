"""Tests of the report on phones, with dark colours, in old browsers and with odd contents."""

import pytest

from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from tests.unit.report.pointing import click


def test_the_address_holds_the_view(open_report, small, report):
    report.press("+")
    report.press("w")
    report.page.select_option("#by", "phase")
    report.page.fill("#search", "conv")
    click(report, 0)
    report.settle()
    view = report.view()
    hash_ = report.page.evaluate("location.hash")
    again = open_report(small, hash_)
    again.settle()
    assert again.view() == view
    assert again.page.input_value("#search") == "conv"
    assert again.page.is_checked("#turns")


def test_a_senseless_address_shows_the_whole(open_report, small):
    opened = open_report(small, "#mode=none&by=x&turns=9&pin=99999&tick=-5&at=1,2,nan&only=77")
    assert opened.number("seen") == 9
    assert "only" not in opened.view()
    assert opened.page.locator("#legend .off").count() == 0


@pytest.mark.parametrize("view", ["#pin=1.5", "#tick=2.5", "#depth=99", "#depth=-3", "#pin=-0.5"])
def test_numbers_in_the_address_that_name_nothing_are_passed_over(open_report, small, view):
    opened = open_report(small, view)
    assert opened.page.input_value("#depth")
    assert opened.text("#live-title") == "Live at the peak, tick 3"
    assert opened.view() == {}


def test_names_of_any_length_leave_room_for_the_rest(open_report):
    endless = "x" * 10_000
    tags = (Tag(endless, endless, endless, endless),)
    profile = Profile.from_columns(
        size=[64], start=[0], end=[1], ticks=1, tag=[0], tags=tags, meta=ProfileMeta(model=endless)
    )
    opened = open_report(profile, "#pin=0")
    for selector in ("header.top", "#details dl"):
        assert opened.page.locator(selector).bounding_box()["height"] < 800


def test_the_colours_follow_the_system(open_report, small):
    opened = open_report(small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark, picture = opened.page.evaluate(ground), opened.colour_at(80, 3)
    opened.page.emulate_media(color_scheme="light")
    opened.settle()
    assert opened.page.evaluate(ground) != dark
    assert sum(opened.colour_at(80, 3)) > sum(picture)


def test_a_phone_shows_all_of_it_without_scrolling_sideways(open_report, small):
    opened = open_report(small, viewport={"width": 360, "height": 740}, has_touch=True)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.page.click("#open-help")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.page.keyboard.press("Escape")
    opened.page.click(".static summary")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_two_fingers_zoom(open_report, small):
    opened = open_report(small, has_touch=True)
    box = opened.page.locator("#marks").bounding_box()
    x, y = box["x"] + 400, box["y"] + 150
    touch = opened.context.new_cdp_session(opened.page)
    for kind, apart in (("touchStart", 40), ("touchMove", 50), ("touchMove", 60)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    opened.settle()
    x0, x1, _, _ = opened.window()
    assert x1 - x0 == pytest.approx(8 * 40 / 60, rel=0.1)


def test_everything_that_can_be_used_can_be_reached_and_has_a_name(report):
    names = report.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [tabindex='0']")]
            .filter((e) => e.checkVisibility())
            .map((e) => e.getAttribute("aria-label") || e.labels?.[0]?.innerText || e.innerText)"""
    )
    assert len(names) > 15
    assert all(name and name.strip() for name in names)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (Profile.from_columns(size=[], start=[], end=[], ticks=0), "no blocks"),
        (Profile.from_columns(size=[8], start=[0], end=[-1], ticks=1), ""),
        (Profile.from_columns(size=[8, 8], start=[0, 1], end=[1, 2], ticks=2, circular=False), ""),
    ],
    ids=["empty", "nothing planned", "line"],
)
def test_profiles_that_are_hardly_any_are_shown_too(open_report, profile, message):
    opened = open_report(profile)
    assert (
        message in opened.text("#message")
        if message
        else opened.page.locator("#message").is_hidden()
    )
    for key in "pvwmc":
        opened.page.keyboard.press(key)


def test_a_browser_without_decompression_shows_a_message(browser, small):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(small.as_uri())
    page.wait_for_function("document.getElementById('message').innerText.includes('2023')")
    assert page.locator("#main").is_hidden()
    context.close()


def test_a_hundred_thousand_blocks(open_report, large, record_property):
    size = large.stat().st_size
    assert size < 3_000_000
    opened = open_report(large)
    assert opened.number("seen") >= 100_000
    painted = opened.page.get_attribute("html", "data-painted")
    frame = opened.number("milliseconds")
    # A time of the machine, which is reported and not checked.
    record_property("first_paint_ms", painted)
    print(f"100,000 blocks: {size:,} bytes, first paint after {painted} ms, a frame {frame} ms")
    opened.press("p")
    assert 0 < opened.number("seen") < 100_000
    opened.page.fill("#search", "attention >= 10 KiB")
    opened.settle()
    assert "blocks" in opened.text("#found")
