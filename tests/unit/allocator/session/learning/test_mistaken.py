"""A union that was paired worse than replay has recognised the requests is no lesson."""

from types import SimpleNamespace

import pytest

from pgmo.allocator.session.learning.lessons import Lesson
from pgmo.allocator.session.learning.replay_monitor import ReplayMonitor
from tests.unit.allocator.session.learning.test_learning import planned


@pytest.mark.parametrize(("missed", "mistaken"), [(0, True), (1, True), (2, False), (5, False)])
def test_a_lesson_adds_no_more_than_was_missed(missed, mistaken):
    before, after = planned(40), planned(40, more=(7_777_777, 8_888_888, 9_999_999))
    monitor = ReplayMonitor.__new__(ReplayMonitor)
    monitor._installer = SimpleNamespace(plans=SimpleNamespace(all=[before]))
    statistics = SimpleNamespace(plan=0, misses={"unknown": missed})
    assert monitor._mistaken(Lesson([after], 0, 0.0), statistics) is mistaken
    assert not monitor._mistaken(Lesson([before, after], 1, 0.0), statistics)  # of its own
