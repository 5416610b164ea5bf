import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pgmo.report.exporters import lanes
from pgmo.report.exporters.lanes import in_lanes

BARS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 9), st.sampled_from([0, 64, 128])), max_size=30
)


def columns(bars):
    low, length, place = np.array(bars, np.int64).reshape(-1, 3).T
    return low, low + length, place


@given(BARS)
def test_bars_of_one_lane_are_apart_and_at_one_address(bars):
    low, high, place = columns(bars)
    lane, address = in_lanes(low, high, place)
    for one in range(len(bars)):
        assert address[lane[one]] == place[one]
        for other in range(one):
            if lane[one] == lane[other]:
                assert high[one] <= low[other] or high[other] <= low[one]


@given(BARS)
def test_there_are_no_more_lanes_than_bars_at_once(bars):
    low, high, _ = columns(bars)
    most = max((int(((low <= t) & (t < high)).sum()) for t in range(30)), default=0)
    assert len(in_lanes(low, high, np.zeros_like(low))[1]) == most


def test_too_many_addresses_share_lanes(monkeypatch):
    monkeypatch.setattr(lanes, "MOST_LANES", 2)
    low, high = np.array([0, 1, 2]), np.array([1, 2, 3])
    assert in_lanes(low, high, np.array([0, 1, 2]))[1] == (None,)
    assert len(in_lanes(low, high, np.array([0, 1, 1]))[1]) == 2
