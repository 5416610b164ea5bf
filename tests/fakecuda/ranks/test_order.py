"""A plan of FSDP2 hands pages over along the program's own events, and adds no wait."""

import pytest

from tests.fakecuda.programs import ROOT, run_command


@pytest.fixture(scope="module")
def told():
    return run_command(ROOT, "-m", "tests.fakecuda.ranks.ordered_rank")


def test_events_and_waits_are_recorded(told):
    assert told["records"] > 20
    assert told["waits"] > 20


def test_replay_waits_for_nothing_that_the_program_would_not_wait_for(told):
    assert told["phase"] == ["replay"] * 3
    assert all(count > 0 for count in told["hand_overs"])
    assert all(count > 0 for count in told["waited"])  # because all streams lag
    assert told["added"] == [0, 0, 0]
    assert told["maps"] == [0, 0, 0]


def test_the_plan_is_near_what_the_order_of_streams_needs(told):
    assert told["by_requests"] <= told["bound"]
    page = 2 << 20
    assert told["bound"] <= told["needed"] <= told["bound"] + 3 * page
