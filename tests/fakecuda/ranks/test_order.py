"""A plan of FSDP2 hands pages over along the program's own events, and adds no wait."""

import pytest

from tests.fakecuda.programs import ROOT, run_command


@pytest.fixture(scope="module")
def figures():
    return run_command(ROOT, "-m", "tests.fakecuda.ranks.ordered_rank")


def test_events_and_waits_are_recorded(figures):
    assert figures["records"] > 20
    assert figures["waits"] > 20


def test_replay_waits_for_nothing_that_the_program_would_not_wait_for(figures):
    assert figures["phase"] == ["replay"] * 3
    assert all(count > 0 for count in figures["hand_overs"])
    assert all(count > 0 for count in figures["waited"])  # because all streams lag
    assert figures["added"] == [0, 0, 0]
    assert figures["maps"] == [0, 0, 0]


def test_the_plan_is_near_what_the_order_of_streams_needs(figures):
    assert figures["by_requests"] <= figures["bound"]
    page = 2 << 20
    assert figures["bound"] <= figures["needed"] <= figures["bound"] + 3 * page
