"""Properties of an iteration's statistics."""

import pytest

from pgmo.allocator.session.statistics import IterationStatistics, Phase


@pytest.mark.parametrize(
    ("driver_calls", "moved", "recurring"),
    [({}, 0, 0), ({"maps": 3}, 3, 3), ({"maps": 3, "creates": 2}, 1, 0), ({"creates": 2}, 0, 0)],
)
def test_pages_that_moved(driver_calls, moved, recurring):
    one = IterationStatistics(Phase.REPLAY, 4, 3, 400, 390, driver_calls=driver_calls)
    assert (one.pages_moved, one.recurring_moves) == (moved, recurring)
