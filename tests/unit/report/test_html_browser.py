"""The report as a person uses it, in a headless Chromium."""

import pytest

from pgmo.packing.portfolio import plan
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.report.attribution import alive
from pgmo.report.html import write_report
from pgmo.units import format_bytes
from tests.unit.report.browser import Report, open_browser
from tests.unit.report.profiles import HOSTILE, large_profile, small_profile

LEFT, RIGHT, BOTTOM = 68, 10, 26
"""Margins of the chart, in CSS pixels."""


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


def pixel(report: Report, tick: float, byte: float) -> tuple[float, float]:
    """Where a tick and an address lie in the chart while everything is seen."""
    box = report.page.locator("#marks").bounding_box()
    profile = small_profile()
    height = plan(profile, alignment=512, effort="fast").arena * 1.02
    width = box["width"] - LEFT - RIGHT
    tall = box["height"] - BOTTOM
    return LEFT + tick / profile.ticks * width, tall * (1 - byte / height)


def point_at(report: Report, block: int) -> tuple[float, float]:
    """The middle of a block, in CSS pixels from the upper left corner of the chart."""
    profile = small_profile()
    made = plan(profile, alignment=512, effort="fast")
    middle = (profile.start[block] + min(profile.end[block], profile.ticks)) / 2
    return pixel(report, middle, made.offset[block] + profile.size[block] / 2)


def click(report: Report, block: int) -> None:
    x, y = point_at(report, block)
    report.page.locator("#marks").click(position={"x": x, "y": y})


def test_blocks_are_drawn_at_their_places(report):
    ground = report.colour_at(LEFT + 20, 3)
    for block in range(7):
        x, y = point_at(report, block)
        assert report.colour_at(x + 3, y + 3) != ground, f"block {block}"


def test_blocks_of_one_module_share_a_colour(report):
    def colour(block):
        x, y = point_at(report, block)
        return report.colour_at(x + 3, y + 3)

    assert colour(1) == colour(6)
    assert colour(0) != colour(1)


def test_a_wrapping_block_is_in_two_parts_at_the_same_height(report):
    made = plan(small_profile(), alignment=512, effort="fast")
    y = made.offset[3] + small_profile().size[3] / 2
    parts = [report.colour_at(*pixel(report, tick, y)) for tick in (1.5, 6.5)]
    assert parts[0] == parts[1]
    assert parts[0] != report.colour_at(*pixel(report, 2.5, y))


def test_the_page_says_how_many_are_seen_and_zooming_in_leaves_fewer(report):
    everything = report.number("seen")
    assert everything == 9  # seven planned blocks, two of them in two parts
    for _ in range(4):
        report.press("+")
    assert 0 < report.number("seen") < everything
    report.press("0")
    assert report.number("seen") == everything
    assert report.window() == []


def test_arrows_move_and_the_ends_hold(report):
    for _ in range(3):
        report.press("+")
    before = report.window()
    report.press("ArrowLeft")
    after = report.window()
    assert after[0] < before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], abs=0.05)
    for _ in range(12):
        report.press("ArrowLeft")
    assert report.window()[0] == 0


def test_labels_of_addresses_differ_however_far_in(browser, tmp_path):
    profile = Profile.from_columns(size=[2**35], start=[0], end=[1], ticks=1)
    path = write_report(profile, tmp_path / "report.html")
    opened = Report(browser, path, f"#at=0,1,{2**33},{2**33 + 4096}")
    opened.page.evaluate(
        """() => {
            window.labels = new Set();
            const fill = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                const own = this.canvas.id === "blocks" && this.textAlign === "right";
                if (own && text.endsWith("B")) window.labels.add(text);
                return fill.call(this, text, ...rest);
            };
        }"""
    )
    opened.press("t")  # draws it again
    labels = opened.page.evaluate("[...window.labels]")
    assert labels[0] == "8.000 GiB"
    assert all(label.startswith("+") for label in labels[1:])
    assert len(labels) > 5
    assert opened.problems == []
    opened.close()


def test_the_wheel_zooms_around_the_pointer(report):
    x, y = pixel(report, 2, 0)
    box = report.page.locator("#marks").bounding_box()
    report.page.mouse.move(box["x"] + x, box["y"] + y - 20)
    report.page.mouse.wheel(0, -100)
    report.settle()
    x0, x1, _, _ = report.window()
    assert x1 - x0 < 8
    assert (2 - x0) / (x1 - x0) == pytest.approx(2 / 8, abs=0.02)


def drag(report: Report, source: str, start, end) -> None:
    box = report.page.locator(source).bounding_box()
    report.page.mouse.move(box["x"] + start[0], box["y"] + start[1])
    report.page.mouse.down()
    report.page.mouse.move(box["x"] + (start[0] + end[0]) / 2, box["y"] + (start[1] + end[1]) / 2)
    report.page.mouse.move(box["x"] + end[0], box["y"] + end[1])
    report.page.mouse.up()
    report.settle()


def test_a_box_drawn_with_shift_is_zoomed_to(report):
    report.page.keyboard.down("Shift")
    drag(report, "#marks", pixel(report, 1, 14 * 1024), pixel(report, 6, 4 * 1024))
    report.page.keyboard.up("Shift")
    x0, x1, y0, y1 = report.window()
    assert (x0, x1) == (pytest.approx(1, abs=0.05), pytest.approx(6, abs=0.05))
    assert (y0, y1) == (pytest.approx(4096, rel=0.05), pytest.approx(14336, rel=0.05))


def test_dragging_moves(report):
    report.press("+")
    before = report.window()
    drag(report, "#marks", (400, 200), (300, 200))
    after = report.window()
    assert after[0] > before[0]
    assert after[2] == pytest.approx(before[2], abs=1)


def test_a_range_selected_on_the_curve_is_what_the_chart_shows(report):
    over = report.page.locator("#curve .u-over")
    width = over.bounding_box()["width"]
    drag(report, "#curve .u-over", (width * 0.25, 40), (width * 0.75, 40))
    x0, x1, y0, _ = report.window()
    assert (x0, x1) == (pytest.approx(2, abs=0.1), pytest.approx(6, abs=0.1))
    assert y0 == 0


def test_the_curve_follows_the_chart(report):
    picture = "document.querySelector('#curve canvas').toDataURL()"
    whole = report.page.evaluate(picture)
    report.press("+")
    assert report.page.evaluate(picture) != whole
    report.press("0")
    assert report.page.evaluate(picture) == whole


def test_a_click_on_the_curve_chooses_a_tick(report):
    over = report.page.locator("#curve .u-over")
    width = over.bounding_box()["width"]
    over.click(position={"x": width * 5.5 / 8, "y": 40})
    assert "tick 5" in report.text("#live-title")


def test_the_curve_says_what_is_live_planned_and_reserved(report):
    keys = report.text("#curve-keys")
    for name in ("live", "max load", "arena", "PyTorch"):
        assert name in keys


def test_persistent_bytes_are_not_counted_as_reserved_beside_the_arena(browser, tmp_path):
    mib = 2**20
    profile = Profile.from_columns(
        size=[100 * mib, 30 * mib], start=[0, 0], end=[-1, 1], ticks=1, circular=False
    )
    opened = Report(browser, write_report(profile, tmp_path / "report.html"))
    assert "PyTorch reserves beyond what is persistent 30.0 MiB" in opened.text("#curve-keys")
    opened.close()


def test_a_double_click_shows_everything(report):
    for _ in range(3):
        report.press("+")
    report.page.locator("#marks").dblclick(position={"x": 300, "y": 100})
    report.settle()
    assert report.window() == []


def test_hovering_names_a_block(report):
    x, y = point_at(report, 0)
    report.page.locator("#marks").hover(position={"x": x, "y": y})
    tip = report.text("#tip")
    assert "8.00 KiB" in tip
    assert "Net.conv" in tip
    assert "net.py:7 in forward" in tip


def test_a_click_selects_a_block_and_escape_lets_it_go(report):
    click(report, 0)
    details = report.text("#details")
    for known in ("8,192 B", "aten.convolution", "net.py:7 in forward", "5 ticks"):
        assert known in details
    assert report.view()["pin"] == "0"
    report.press("Escape")
    assert report.page.locator("#selected").is_hidden()


def test_a_click_lists_who_is_alive_then_largest_first(report):
    click(report, 5)
    profile = small_profile()
    tick = int(report.view()["tick"])
    expected = {
        row: int(profile.size[row]) * copies
        for row in range(7)
        if (copies := int(alive(profile, tick)[row]))
    }
    names = report.page.locator("#live li .number").all_inner_texts()
    assert names == [format_bytes(size) for size in sorted(expected.values(), reverse=True)]
    assert f"tick {tick}" in report.text("#live-title")


def test_the_peak_is_where_most_is_live(report):
    load = small_profile().load_curve(512)
    assert f"tick {load.argmax()}" in report.text("#live-title")
    report.press("+")
    report.press("p")
    x0, x1, y0, _ = report.window() or [0, 8, 0, 0]
    assert x0 <= load.argmax() < x1
    assert y0 == 0


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
        ("op:convolution\tphase:backward", "2 blocks, 8.00 KiB"),  # as pasted from a table
        (">= 6,144", "2 blocks, 14.0 KiB"),  # as the page writes it
    ],
)
def test_search_counts_what_it_finds(report, query, found):
    assert matches(report, query) == found


def test_what_is_not_found_is_dimmed(report):
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
def test_colours_tell_what_was_chosen(report, by, names):
    report.page.select_option("#by", by)
    legend = report.text("#legend")
    for name in names:
        assert name in legend
    assert report.view().get("by") == by


def test_pytorchs_places_can_be_seen_instead(report):
    planned = report.page.evaluate("document.getElementById('blocks').toDataURL()")
    report.press("v")
    assert report.view()["mode"] == "placed"
    assert report.number("seen") == 10  # the persistent block has its place there
    assert report.page.evaluate("document.getElementById('blocks').toDataURL()") != planned
    report.press("v")
    assert report.number("seen") == 9


def test_two_turns_show_wrapping_blocks_whole(report):
    report.press("w")
    assert report.view()["turns"] == "2"
    # Five plain ones twice; the wrapping one cut, whole, and cut; the doubly live one likewise.
    assert report.number("seen") == 16


def test_persistent_blocks_are_shown_if_wanted(report):
    report.page.check("#persistent")
    report.settle()
    assert report.number("seen") == 10


def test_dialogs_open_and_close_by_key(report):
    for key, name, text in (
        ("s", "statistics", "Who holds memory at the peak, by phase"),
        ("b", "table", "8 blocks"),
        ("?", "help", "Left to right"),
    ):
        report.page.keyboard.press(key)
        assert text in report.text(f"#{name}")
        report.page.keyboard.press("Escape")
        assert report.page.locator(f"#{name}").is_hidden()


def test_holders_of_the_peak_add_up_to_it(report):
    report.page.keyboard.press("s")
    table = report.page.locator("#statistics section", has_text="by phase").locator("tbody tr")
    shares = [row.locator("td").nth(1).inner_text() for row in table.all()]
    assert sum(float(share.rstrip(" %")) for share in shares) == pytest.approx(100, abs=0.2)


def test_the_table_sorts_and_leads_to_blocks(report):
    report.page.keyboard.press("b")
    first = report.page.locator("#table tbody tr").first
    assert "8.00 KiB" in first.inner_text()
    report.page.click("#table th button:has-text('size')")
    assert "512 B" in first.inner_text()
    first.locator("button").click()
    report.settle()
    assert report.page.locator("#table").is_hidden()
    assert report.view()["pin"] == "6"


def test_the_table_comes_as_csv(report, tmp_path):
    report.page.keyboard.press("b")
    with report.page.expect_download() as download:
        report.page.click("#download")
    target = tmp_path / "blocks.csv"
    download.value.save_as(target)
    lines = target.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("id,lower,upper,size,offset")
    assert len(lines) == 9
    assert "0,0,5,8192," in "\n".join(lines)


def test_names_are_shown_as_text_whatever_is_in_them(report):
    click(report, 3)
    assert HOSTILE in report.text("#details")
    assert report.page.title() == "small · pgmo report"


def test_the_address_holds_the_view(browser, small, report):
    report.press("+")
    report.press("w")
    report.page.select_option("#by", "phase")
    report.page.fill("#search", "conv")
    click(report, 0)
    report.settle()
    view = report.view()
    hash_ = report.page.evaluate("location.hash")
    again = Report(browser, small, hash_)
    again.settle()
    assert again.view() == view
    assert again.page.input_value("#search") == "conv"
    assert again.page.is_checked("#turns")
    again.close()


def test_a_senseless_address_shows_the_whole(browser, small):
    opened = Report(browser, small, "#mode=none&by=x&turns=9&pin=99999&tick=-5&at=1,2,nan&only=77")
    assert opened.number("seen") == 9
    assert opened.problems == []
    assert "only" not in opened.view()
    assert opened.page.locator("#legend .off").count() == 0
    opened.close()


@pytest.mark.parametrize("view", ["#pin=1.5", "#tick=2.5", "#depth=99", "#depth=-3", "#pin=-0.5"])
def test_numbers_in_the_address_that_name_nothing_are_passed_over(browser, small, view):
    opened = Report(browser, small, view)
    assert opened.problems == []
    assert opened.page.input_value("#depth")
    assert opened.text("#live-title") == "Live at the peak, tick 3"
    assert opened.view() == {}
    opened.close()


def test_names_of_any_length_leave_room_for_the_rest(browser, tmp_path):
    endless = "x" * 10_000
    tags = (Tag(endless, endless, endless, endless),)
    profile = Profile.from_columns(
        size=[64], start=[0], end=[1], ticks=1, tag=[0], tags=tags, meta=ProfileMeta(model=endless)
    )
    opened = Report(browser, write_report(profile, tmp_path / "report.html"), "#pin=0")
    for selector in ("header.top", "#details dl"):
        assert opened.page.locator(selector).bounding_box()["height"] < 800
    opened.press("b")
    assert opened.page.locator("#table tbody tr").bounding_box()["height"] < 200
    assert opened.problems == []
    opened.close()


def test_the_theme_follows_the_system_until_one_is_chosen(browser, small):
    opened = Report(browser, small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.page.evaluate(ground)
    opened.press("t")
    light = opened.page.evaluate(ground)
    assert dark != light
    opened.page.reload()
    opened.page.wait_for_selector("html[data-painted]")
    assert opened.page.evaluate(ground) == light
    opened.close()


def test_a_phone_shows_all_of_it_without_scrolling_sideways(browser, small):
    opened = Report(browser, small, viewport={"width": 360, "height": 740}, has_touch=True)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    for name in ("statistics", "table", "help"):
        opened.page.click(f"#open-{name}")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
        opened.page.keyboard.press("Escape")
    assert opened.problems == []
    opened.close()


def test_two_fingers_zoom(browser, small):
    opened = Report(browser, small, has_touch=True)
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
    assert opened.problems == []
    opened.close()


def test_paper_gets_a_light_picture_and_the_page_is_as_before_afterwards(browser, small):
    opened = Report(browser, small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.page.evaluate(ground)
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("img.on-paper").count() == 2
    assert opened.page.evaluate(ground) != dark
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator("img.on-paper").count() == 0
    assert opened.page.evaluate(ground) == dark
    assert opened.problems == []
    opened.close()


def test_a_page_that_is_laid_out_for_paper_already_can_be_printed(browser, small):
    opened = Report(browser, small)
    opened.page.emulate_media(media="print")  # takes the canvases their size
    opened.settle()
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.problems == []
    opened.close()


def test_everything_that_can_be_used_can_be_reached_and_has_a_name(report):
    names = report.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [tabindex='0']")]
            .filter((e) => e.checkVisibility())
            .map((e) => e.getAttribute("aria-label") || e.labels?.[0]?.innerText || e.innerText)"""
    )
    assert len(names) > 15
    assert all(name and name.strip() for name in names)


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        (Profile.from_columns(size=[], start=[], end=[], ticks=0), "no blocks"),
        (Profile.from_columns(size=[8], start=[0], end=[-1], ticks=1), ""),
        (Profile.from_columns(size=[8, 8], start=[0, 1], end=[1, 2], ticks=2, circular=False), ""),
    ],
    ids=["empty", "nothing planned", "line"],
)
def test_profiles_that_are_hardly_any_are_shown_too(browser, tmp_path, profile, told):
    opened = Report(browser, write_report(profile, tmp_path / "report.html"))
    assert told in opened.text("#message") if told else opened.page.locator("#message").is_hidden()
    for key in "pvwmcs":
        opened.page.keyboard.press(key)
    assert opened.problems == []
    opened.close()


def test_a_browser_without_decompression_is_told_so(browser, small):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(small.as_uri())
    page.wait_for_function("document.getElementById('message').innerText.includes('2023')")
    assert page.locator("#main").is_hidden()
    context.close()


def test_a_hundred_thousand_blocks(browser, large, record_property):
    size = large.stat().st_size
    assert size < 3_000_000
    opened = Report(browser, large)
    assert opened.number("seen") >= 100_000
    painted = opened.page.get_attribute("html", "data-painted")
    frame = opened.number("milliseconds")
    # Reported, not asserted: it depends on the machine.
    record_property("first_paint_ms", painted)
    print(f"100,000 blocks: {size:,} bytes, first paint after {painted} ms, a frame {frame} ms")
    opened.press("p")
    assert 0 < opened.number("seen") < 100_000
    opened.page.fill("#search", "attention >= 10 KiB")
    opened.settle()
    assert "blocks" in opened.text("#found")
    opened.page.click("#open-table")
    assert opened.page.locator("#table tbody tr").count() == 1000
    assert opened.problems == []
    opened.close()
