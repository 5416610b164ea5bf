"""Tests of the display of profiles and plans in notebooks: the report in a sandbox."""

import pgmo
from tests.unit.report.profiles import small_profile


def test_show_has_the_whole_report() -> None:
    profile = small_profile()
    plan = pgmo.plan(profile)
    assert profile.show(plan).page == profile.show(plan).page
    for frame in (profile.show(plan, height=300), plan.show(height=300)):
        assert frame.page.startswith("<!doctype html>")
        assert frame.height == 300
