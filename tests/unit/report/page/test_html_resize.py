"""Tests of the chart of a large report in windows of several heights."""

import numpy as np
import pytest

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from tests.unit.report.profiles import write_report

BLOCKS = 8255
COLOURED = """() => {
    const canvas = document.getElementById("blocks");
    const shown = canvas.getContext("2d").getImageData(100, 0, 1, canvas.height - 30).data;
    return shown.filter((value, i) => i % 4 === 3 && value > 0).length / (canvas.height - 30);
}"""
"""Script for the drawn share of a column of pixels, from 0 to 1."""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    start = np.arange(BLOCKS)
    tags = tuple(Tag(f"Net.layers.{layer}", "aten.mm", "forward") for layer in range(24))
    profile = Profile.from_columns(
        size=2**20 * (1 + start % 7),
        start=start,
        end=np.minimum(start + 1 + start * 37 % 900, BLOCKS),
        ticks=BLOCKS,
        tag=start % len(tags),
        tags=tags,
    )
    return write_report(profile, tmp_path_factory.mktemp("large") / "report.html")


def test_a_window_that_changes_needs_no_further_frame(open_report, large):
    """A screenshot of another size is taken in the frame that resizes the page."""
    opened = open_report(large)
    assert opened.number("seen") >= BLOCKS
    opened.page.evaluate("() => { window.requestAnimationFrame = () => 1; }")
    for height in (1200, 1440, 2000):
        before = opened.page.evaluate("document.getElementById('blocks').height")
        opened.page.set_viewport_size({"width": 1280, "height": height})
        grown = "(before) => document.getElementById('blocks').height !== before"
        opened.page.wait_for_function(grown, arg=before, polling=20)
        assert opened.page.evaluate(COLOURED) == 1
    opened.problems.clear()  # Chromium warns that this test reads the canvas repeatedly
