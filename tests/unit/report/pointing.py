"""Positions in the chart of the small profile, and movements of the mouse."""

from pgmo.packing.planner import plan
from tests.unit.report.browser import Report
from tests.unit.report.profiles import small_profile

LEFT, RIGHT, BOTTOM = 68, 10, 26
"""Left, right and bottom margin of the chart, in CSS pixels."""


def pixel(report: Report, tick: float, byte: float) -> tuple[float, float]:
    """Return the position of a tick and an offset in the whole chart, in CSS pixels."""
    box = report.page.locator("#marks").bounding_box()
    profile = small_profile()
    height = plan(profile, alignment=512, effort="fast").arena * 1.02
    width = box["width"] - LEFT - RIGHT
    tall = box["height"] - BOTTOM
    return LEFT + tick / profile.ticks * width, tall * (1 - byte / height)


def point_at(report: Report, block: int) -> tuple[float, float]:
    """Return the middle of a block, in CSS pixels from the upper left corner of the chart."""
    profile = small_profile()
    made = plan(profile, alignment=512, effort="fast")
    middle = (profile.start[block] + min(profile.end[block], profile.ticks)) / 2
    return pixel(report, middle, made.offset[block] + profile.size[block] / 2)


def click(report: Report, block: int) -> None:
    x, y = point_at(report, block)
    report.page.locator("#marks").click(position={"x": x, "y": y})


def drag(report: Report, source: str, start, end) -> None:
    box = report.page.locator(source).bounding_box()
    report.page.mouse.move(box["x"] + start[0], box["y"] + start[1])
    report.page.mouse.down()
    report.page.mouse.move(box["x"] + (start[0] + end[0]) / 2, box["y"] + (start[1] + end[1]) / 2)
    report.page.mouse.move(box["x"] + end[0], box["y"] + end[1])
    report.page.mouse.up()
    report.settle()
