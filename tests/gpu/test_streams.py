"""Tests that a slot is not reused before its uses on other streams have ended."""

import pytest

torch = pytest.importorskip("torch")

from tests.gpu.device import STUB  # noqa: E402
from tests.gpu.processes import result_of, run_module  # noqa: E402

PAIRS = pytest.mark.parametrize("pair", ["main-side", "side-main", "side-other"])


@pytest.fixture(scope="module")
def play():
    from tests.gpu.stream_scenario import play

    return play


@PAIRS
def test_a_recorded_stream_that_the_recording_knew(play, pair):
    seen = play(pair, record_from=0)
    assert seen.phases[-1] == "replay"
    assert seen.hits[-1] > 0
    assert not seen.reused
    assert not seen.wrong


@PAIRS
def test_a_recorded_stream_that_comes_unexpectedly(play, pair):
    seen = play(pair, record_from=8)
    assert seen.phases[7:9] == ["replay", "replay"]  # the session records two iterations later
    assert seen.hits[7] == 2  # x and y, in one slot
    assert seen.hits[8] == 1  # y gets no slot, because x is being read
    assert not seen.reused
    assert not seen.wrong


def test_the_check_notices_a_broken_adapter(tmp_path):
    """An adapter that is compiled to ignore `record_stream` fails the check."""
    broken = {
        "PGMO_ADAPTER_FLAGS": "-DPGMO_BREAK_RECORD_STREAM",
        "PGMO_CACHE_DIR": str(tmp_path),
    }
    seen = result_of(run_module("stream_scenario", environment=broken))
    assert seen["hits"][8] == 2
    assert seen["reused"]
    assert set(seen["reused"]) <= set(seen["delayed"])
    if not STUB:  # the stub copies before y exists
        assert seen["wrong"]
        assert set(seen["wrong"]) <= set(seen["delayed"])
