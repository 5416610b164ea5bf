"""Tests of the chart and the curve of the report, in a headless Chromium."""

import pytest

from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.report.findings.attribution import alive
from pgmo.units import format_bytes
from tests.unit.report.pointing import LEFT, click, drag, pixel, point_at
from tests.unit.report.profiles import small_profile, write_report


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


def test_labels_of_addresses_differ_however_far_in(open_report, tmp_path):
    profile = Profile.from_columns(size=[2**35], start=[0], end=[1], ticks=1)
    path = write_report(profile, tmp_path / "report.html")
    opened = open_report(path, f"#at=0,1,{2**33},{2**33 + 4096}")
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
    opened.press("c")  # draws the chart again
    labels = opened.page.evaluate("[...window.labels]")
    assert labels[0] == "8.000 GiB"
    assert all(label.startswith("+") for label in labels[1:])
    assert len(labels) > 5


def test_the_wheel_zooms_around_the_pointer(report):
    x, y = pixel(report, 2, 0)
    box = report.page.locator("#marks").bounding_box()
    report.page.mouse.move(box["x"] + x, box["y"] + y - 20)
    report.page.mouse.wheel(0, -100)
    report.settle()
    x0, x1, _, _ = report.window()
    assert x1 - x0 < 8
    assert (2 - x0) / (x1 - x0) == pytest.approx(2 / 8, abs=0.02)


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


def test_persistent_bytes_are_not_counted_as_reserved_beside_the_arena(open_report):
    mib = 2**20
    profile = Profile.from_columns(
        size=[100 * mib, 30 * mib], start=[0, 0], end=[-1, 1], ticks=1, circular=False
    )
    opened = open_report(profile)
    keys = opened.text("#curve-keys")
    assert "PyTorch reserves, without persistent blocks 30.0 MiB" in keys
    assert all(f"{name} 30.0 MiB" in keys for name in ("live", "max load", "arena"))


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
